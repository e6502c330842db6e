// The two compared recordings.

import { useMemo } from 'preact/hooks';
import { entryAt, numberAt } from '../../numbers/at';
import type { Range } from '../../numbers/scale';
import { useAnswer } from '../../parts/answer';
import type { Current } from '../../parts/current';
import type { Device, Recording } from '../../source/source';
import { recordings, source } from '../../state/recordings';
import { shortPaths } from '../../text/path';
import { deviceName } from '../../text/units';

/** One of the two compared recordings. */
export interface Side extends Current {
  title: string;
  of: Recording;
}

/** Returns the file's name, with enough of its path to distinguish it from the others. */
export function titleOf(r: Recording, d: Device): string {
  const all = recordings.value ?? [];
  const name = shortPaths(all.map((one) => one?.name ?? ''))[all.indexOf(r)] ?? r.name;
  return r.devices.length > 1 ? `${name}, ${deviceName(d.device)}` : name;
}

/** A compared recording with the parts that can be chosen. */
export interface Cut extends Side {
  /** The runs of each region by its name, and the steps under an empty name: first and last moment of each. */
  parts: Map<string, Range[]>;
}

/** Returns the steps of a recording, and the runs of its regions once they are known. */
export function useParts(side: Side): Cut {
  const { file, device, recording } = side;
  const { value: regions } = useAnswer(`${file}.${device}`, 'regions', () => source.ask(file, device, { question: 'regions' }));
  const { steps } = recording;
  const parts = useMemo(() => {
    const found = new Map<string, Range[]>();
    const add = (name: string, part: Range) => {
      const same = found.get(name);
      if (same) same.push(part);
      else found.set(name, [part]);
    };
    // A step's first moment follows its first event; its last moment precedes the next step's.
    steps?.from.forEach((from, i) => add('', [from - 1, numberAt(steps.to, i) - 1]));
    regions?.name.forEach((name, i) => add(entryAt(regions.names, name), [numberAt(regions.from, i), numberAt(regions.to, i)]));
    return found;
  }, [steps, regions]);
  return { ...side, parts };
}
