// The two recordings that are compared.

import { useMemo } from 'preact/hooks';
import { entryAt, numberAt } from '../../numbers/at';
import type { Range } from '../../numbers/scale';
import { useAnswer } from '../../parts/answer';
import type { Current } from '../../parts/current';
import type { Device, Recording } from '../../source/source';
import { recordings, source } from '../../state/recordings';
import { shortPaths } from '../../text/path';
import { deviceName } from '../../text/units';

/** One of the two that are compared. */
export interface Side extends Current {
  title: string;
  of: Recording;
}

/** The file's name, with as much of its path as tells it from the others. */
export function titleOf(r: Recording, d: Device): string {
  const all = recordings.value ?? [];
  const name = shortPaths(all.map((one) => one?.name ?? ''))[all.indexOf(r)] ?? r.name;
  return r.devices.length > 1 ? `${name}, ${deviceName(d.device)}` : name;
}

/** A recording that is compared, with the parts that it can be cut into. */
export interface Cut extends Side {
  /** The runs of each region by its name, and the steps under no name: from the first moment to the last of each. */
  parts: Map<string, Range[]>;
}

/** The steps of a recording, and the runs of its regions once they are known. */
export function useParts(side: Side): Cut {
  const { file, device, recording } = side;
  const { value: regions } = useAnswer(`${file}.${device}`, 'regions', () => source.regions(file, device));
  const { steps } = recording;
  const parts = useMemo(() => {
    const found = new Map<string, Range[]>();
    const add = (name: string, part: Range) => {
      const same = found.get(name);
      if (same) same.push(part);
      else found.set(name, [part]);
    };
    // Moments of a step begin with that after its first event, and end before that of the next.
    steps?.from.forEach((from, i) => add('', [from - 1, numberAt(steps.to, i) - 1]));
    regions?.name.forEach((name, i) => add(entryAt(regions.names, name), [numberAt(regions.from, i), numberAt(regions.to, i)]));
    return found;
  }, [steps, regions]);
  return { ...side, parts };
}
