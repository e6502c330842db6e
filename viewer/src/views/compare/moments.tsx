// The live memory at a moment of each recording, in groups.

import { useMemo } from 'preact/hooks';
import type { ColorKeys } from '../../draw/color-keys';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, changeColumn, countColumn, type Column } from '../../parts/columns';
import { Waiting } from '../../parts/controls';
import { colorsOfGroups, groupColumn } from '../../parts/grouping';
import { groupsOf, type Group } from '../../parts/holders';
import type { By } from '../../source/source';
import { groupBy } from '../../state/grouping';
import { query, queryText } from '../../search/found';
import { source } from '../../state/recordings';
import { bytes, signedBytes } from '../../text/units';
import type { Cut } from './side';
import { Rows } from './rows';

function growthColumns(by: By, color: ColorKeys['color'] | null): Column<Group>[] {
  return [
    groupColumn(by, color),
    changeColumn('change_bytes', 'B − A', (g) => g.bytes - g.before),
    bytesColumn('a_bytes', 'A', (g) => g.before),
    bytesColumn('b_bytes', 'B', (g) => g.bytes),
    countColumn('a_blocks', 'Blocks A', (g) => g.countBefore),
    countColumn('b_blocks', 'Blocks B', (g) => g.count),
  ];
}

/** Requests the live groups of both, with their grouping. */
function useBoth(a: Cut, b: Cut, atA: number, atB: number) {
  const by = groupBy.value;
  return useAnswer(a.scope, [b.scope, atA, atB, by, queryText.value].join(' '), async (unwanted) => {
    const other = { other_file: b.file, other_device: b.device, other_moment: atB };
    const held = await source.ask(
      a.file,
      a.device,
      { question: 'holders_of_both', moment: atA, by, search: query.peek(), ...other },
      unwanted,
    );
    return { held, groups: groupsOf(held), by };
  });
}

/** A table of the changes from A to B, and the stack of the chosen row. */
export function Growth({ a, b, atA, atB }: { a: Cut; b: Cut; atA: number; atB: number }) {
  const both = useBoth(a, b, atA, atB);
  const by = both.value?.by ?? groupBy.value;
  const color = colorsOfGroups(by);
  const columns = useMemo(() => growthColumns(by, color), [by, color]);
  const before = both.value?.held.before;
  if (!both.value || !before) return <Waiting error={both.error} what="Reading the live memory of both." />;
  const { groups } = both.value;
  const { now } = both.value.held;
  const [totalA, totalB] = [before.counters.allocated, now.counters.allocated];
  return (
    <Rows
      a={a}
      b={b}
      way="moments"
      name={`compare-${before.moment}-${now.moment}`}
      caption={`Allocated by ${by}`}
      columns={columns}
      groups={groups}
      totals={[totalA, totalB]}
      pending={both.pending}
    >
      A {bytes(totalA)}, B {bytes(totalB)}: {signedBytes(totalB - totalA)}
    </Rows>
  );
}
