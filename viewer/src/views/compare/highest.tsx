// Compares each group at its own peak, in both recordings or in a part of each.

import { useMemo } from 'preact/hooks';
import { numberAt } from '../../numbers/at';
import type { Range } from '../../numbers/scale';
import type { ColorKeys } from '../../draw/color-keys';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, changeColumn, textColumn, type Column } from '../../parts/columns';
import { Empty, Select, Waiting } from '../../parts/controls';
import { momentName } from '../../parts/current';
import { colorsOfGroups, groupColumn } from '../../parts/grouping';
import { groupsOf, type Group } from '../../parts/holders';
import { NONE, type By, type Device } from '../../source/source';
import { part } from '../../state/compared';
import { groupBy } from '../../state/grouping';
import { query, queryText } from '../../search/found';
import { source } from '../../state/recordings';
import { bytes, signedBytes } from '../../text/units';
import type { Cut } from './side';
import { Rows } from './rows';

/** Chooses a part that both recordings have: all of both, or a region by name. */
export function ChoosePart({ a, b }: { a: Cut; b: Cut }) {
  const names = [...a.parts.keys()].filter((name) => b.parts.has(name));
  const chosen = part.value;
  // The part in the address may be missing, or not be known yet.
  const shown = chosen === null ? [] : names.includes(chosen.region) ? [] : [chosen.region];
  const choices = [
    { value: WHOLE, label: 'all' },
    ...[...names, ...shown].map((name) => ({ value: PART + name, label: name || 'a step' })),
  ];
  const choose = (value: string) => {
    const region = value.slice(PART.length);
    const last = Math.min(a.parts.get(region)?.length ?? 1, b.parts.get(region)?.length ?? 1);
    part.value = value === WHOLE ? null : { region, numbers: [last, last] };
  };
  return (
    <>
      <Select label="Part" choices={choices} value={chosen === null ? WHOLE : PART + chosen.region} choose={choose} />
      {chosen !== null &&
        [a, b].map((side, i) => (
          <label key={i} class="select">
            <span>
              {chosen.region ? 'run' : 'step'} of {'AB'[i]}
            </span>
            <input
              type="number"
              min={1}
              max={side.parts.get(chosen.region)?.length ?? 1}
              value={chosen.numbers[i]}
              onChange={(e) => {
                const numbers: [number, number] = [...chosen.numbers];
                numbers[i] = Math.max(Math.trunc(e.currentTarget.valueAsNumber) || 1, 1);
                part.value = { ...chosen, numbers };
              }}
            />
          </label>
        ))}
    </>
  );
}

const WHOLE = 'all';
const PART = 'part:';

/** Returns the moments of the compared part of a recording; null if it lacks the part. */
function momentsOf({ parts, recording }: Cut, side: 0 | 1): Range | null {
  const chosen = part.value;
  if (chosen === null) return [0, recording.events];
  return parts.get(chosen.region)?.[chosen.numbers[side] - 1] ?? null;
}

function highestColumns(by: By, color: ColorKeys['color'] | null, a: Device, b: Device): Column<Group & At>[] {
  return [
    groupColumn(by, color),
    changeColumn('change_bytes', 'B − A', (g) => g.bytes - g.before),
    bytesColumn('a_bytes', 'Peak in A', (g) => g.before),
    bytesColumn('b_bytes', 'Peak in B', (g) => g.bytes),
    textColumn('a_at', 'A at', (g) => (g.atA === NONE ? '–' : momentName(g.atA, a))),
    textColumn('b_at', 'B at', (g) => (g.atB === NONE ? '–' : momentName(g.atB, b))),
  ];
}

/** The moment of a group's peak in each recording; NONE if it holds nothing. */
interface At {
  atA: number;
  atB: number;
}

/** Each group at its own peak in the chosen part of both, and the stack of the chosen row. */
export function Highest({ a, b }: { a: Cut; b: Cut }) {
  const [inA, inB] = [momentsOf(a, 0), momentsOf(b, 1)];
  if (inA && inB) return <HighestIn a={a} b={b} inA={inA} inB={inB} />;
  return (
    <Empty title="One of the recordings has no such part.">
      <p>Choose another, or all of both.</p>
    </Empty>
  );
}

function useHighest(a: Cut, b: Cut, inA: Range, inB: Range) {
  const by = groupBy.value;
  const key = [b.scope, inA, inB, by, queryText.value].join(' ');
  return useAnswer(a.scope, key, async (unwanted) => {
    const other = { other_file: b.file, other_device: b.device, other_from: inB[0], other_to: inB[1] };
    const asked = { by, from: inA[0], to: inA[1], search: query.peek(), ...other };
    const {
      holders,
      moment: atA,
      other_moment: atB,
    } = await source.ask(a.file, a.device, { question: 'highest_of_both', ...asked }, unwanted);
    const at = (i: number): At => ({ atA: numberAt(atA, i), atB: numberAt(atB, i) });
    return { holders, groups: groupsOf(holders).map((group, i) => ({ ...group, ...at(i) })), by };
  });
}

function HighestIn({ a, b, inA, inB }: { a: Cut; b: Cut; inA: Range; inB: Range }) {
  const both = useHighest(a, b, inA, inB);
  const by = both.value?.by ?? groupBy.value;
  const color = colorsOfGroups(by);
  const columns = useMemo(() => highestColumns(by, color, a.recording, b.recording), [by, color, a.recording, b.recording]);
  const before = both.value?.holders.before;
  if (!both.value || !before) return <Waiting error={both.error} what="Reading each group's peak." />;
  const { groups, holders } = both.value;
  const [totalA, totalB] = [before.counters.allocated, holders.now.counters.allocated];
  return (
    <Rows
      a={a}
      b={b}
      way="highest"
      name="compare-highest"
      caption={`Peak of each ${by}`}
      columns={columns}
      groups={groups}
      totals={[totalA, totalB]}
      pending={both.pending}
    >
      All together at most {bytes(totalA)} in A, {bytes(totalB)} in B: {signedBytes(totalB - totalA)}
    </Rows>
  );
}
