// All ranks of a job: the main findings, each rank over time, those that differ, and all of them as a table. It has its own script and
// style.

import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../parts/columns';
import { Table } from '../parts/table';
import { Waiting } from '../parts/controls';
import type { RankTold, Ranks } from '../source/generated/ranks';
import { ranks } from '../state/opened';
import { file } from '../state/place';
import { openRank } from '../state/ranks';
import { count } from '../text/units';
import { Different } from './ranks/different';
import { HeatMap } from './ranks/heat-map';
import style from './ranks/ranks.css?inline';

const sheet = new CSSStyleSheet();
sheet.replaceSync(style);
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

export function RanksView() {
  const told = ranks.value;
  return told ? <All told={told} /> : <Waiting error={null} what="Reading the recordings of all ranks." />;
}

function All({ told }: { told: Ranks }) {
  // Returning to this view keeps the last opened rank chosen.
  const chosen = useMemo(() => signal(told.ranks[file.value] ? file.value : null), [told]);
  return (
    <div class="ranks-view" data-ranks={told.ranks.length} data-read={told.read}>
      <header>
        <h2>
          {count(told.read)} of {count(told.ranks.length)} ranks read
        </h2>
        <p class="quiet">
          {told.paths.join(', ')}; ranks by {told.ranks_by}.
        </p>
        <ul class={told.is_well ? 'ranks-told ranks-well' : 'ranks-told'} aria-label="Differences">
          {told.told.map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
        {told.notes.map((note) => (
          <p key={note} class="quiet">
            {note}
          </p>
        ))}
      </header>
      <HeatMap told={told} chosen={chosen} />
      <Different told={told} />
      <RankTable told={told} chosen={chosen.value} choose={(at) => (chosen.value = at)} />
    </div>
  );
}

interface RankTableProps {
  told: Ranks;
  chosen: number | null;
  choose: (rank: number) => void;
}

function RankTable({ told, chosen, choose }: RankTableProps) {
  const rows = useMemo(() => [...told.ranks.keys()], [told]);
  const columns = useMemo(() => columnsOf(told), [told]);
  const different = useMemo(() => new Set(told.different.map(({ at }) => at)), [told]);
  return (
    <Table
      name="ranks"
      caption="Ranks"
      columns={columns}
      rows={rows}
      rowKey={(at) => at}
      chosen={chosen}
      choose={choose}
      enter={openRank}
      marked={(at) => different.has(at)}
    >
      <span class="quiet">A click on a rank opens its recording.</span>
    </Table>
  );
}

/** Returns the columns that have a value for any rank. */
function columnsOf(told: Ranks): Column<number>[] {
  const of =
    <T,>(get: (rank: RankTold) => T) =>
    (at: number) =>
      get(told.ranks[at]!);
  const anyHas = (get: (rank: RankTold) => unknown) => told.ranks.some((rank) => get(rank) !== null);
  const columns: [boolean, Column<number>][] = [
    [
      true,
      countColumn(
        'rank',
        'Rank',
        of((rank) => rank.rank),
      ),
    ],
    [
      anyHas((rank) => rank.host),
      textColumn(
        'host',
        'Host',
        of((rank) => rank.host ?? ''),
      ),
    ],
    ...told.groups.map((name): [boolean, Column<number>] => [
      true,
      countColumn(
        name,
        name,
        of((rank) => rank.groups[name] ?? null),
      ),
    ]),
    [
      true,
      countColumn(
        'kind',
        'Kind',
        of((rank) => (rank.kind === null ? null : rank.kind + 1)),
      ),
    ],
    [
      true,
      bytesColumn(
        'peak_allocated_bytes',
        'Peak',
        of((rank) => rank.allocated_bytes),
        told.scale_bytes,
      ),
    ],
    [
      true,
      changeColumn(
        'against_usual_bytes',
        'Against usual',
        of((rank) => rank.against_usual_bytes),
      ),
    ],
    [
      true,
      bytesColumn(
        'peak_reserved_bytes',
        'Reserved',
        of((rank) => rank.reserved_bytes),
      ),
    ],
    [
      anyHas((rank) => rank.failed_bytes),
      bytesColumn(
        'out_of_memory_bytes',
        'Out of memory',
        of((rank) => rank.failed_bytes),
      ),
    ],
    [
      anyHas((rank) => rank.leak),
      textColumn(
        'leak',
        'Leak',
        of((rank) => rank.leak ?? ''),
      ),
    ],
    [
      anyHas((rank) => rank.unread_because),
      textColumn(
        'unread_because',
        'Not read',
        of((rank) => rank.unread_because ?? ''),
      ),
    ],
    [
      true,
      textColumn(
        'file',
        'File',
        of((rank) => rank.file),
        true,
      ),
    ],
  ];
  return columns.flatMap(([isThere, column]) => (isThere ? [column] : []));
}
