// All ranks of a job: the main findings, each rank over time, those that differ, and all of them as a table. It has its own script and
// style.

import { signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Table } from '../../parts/table';
import { Waiting } from '../../parts/controls';
import type { RankTold, Ranks } from '../../source/source';
import { ranks } from '../../state/files';
import { file } from '../../state/place';
import { openRank } from '../../state/ranks';
import { count } from '../../text/units';
import { Different } from './different';
import { HeatMap } from './heat-map';
import style from './ranks.css?inline';

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
  /** Its position among the ranks. */
  chosen: number | null;
  choose: (at: number) => void;
}

function RankTable({ told, chosen, choose }: RankTableProps) {
  const columns = useMemo(() => columnsOf(told), [told]);
  const different = useMemo(() => new Set(told.different.map(({ at }) => told.ranks[at]!)), [told]);
  const at = (rank: RankTold) => told.ranks.indexOf(rank);
  return (
    <Table
      name="ranks"
      caption="Ranks"
      columns={columns}
      rows={told.ranks}
      rowKey={({ rank }) => rank}
      chosen={chosen === null ? null : told.ranks[chosen]!.rank}
      choose={(rank) => choose(at(rank))}
      enter={(rank) => openRank(at(rank))}
      marked={(rank) => different.has(rank)}
    >
      <span class="quiet">A click on a rank opens its recording.</span>
    </Table>
  );
}

/** Returns the columns that have a value for any rank. */
function columnsOf({ ranks, groups, scales }: Ranks): Column<RankTold>[] {
  const ifAny = (get: (rank: RankTold) => unknown, column: Column<RankTold>) =>
    ranks.some((rank) => get(rank) !== null) ? [column] : [];
  return [
    countColumn('rank', 'Rank', (rank) => rank.rank),
    ...ifAny(
      (rank) => rank.host,
      textColumn('host', 'Host', (rank) => rank.host ?? ''),
    ),
    ...groups.map((name) => countColumn<RankTold>(name, name, (rank) => rank.groups[name] ?? null)),
    countColumn('kind', 'Kind', (rank) => (rank.kind === null ? null : rank.kind + 1)),
    bytesColumn('peak_allocated_bytes', 'Peak', (rank) => rank.allocated_bytes, scales.allocated.bytes),
    changeColumn('against_usual_bytes', 'Against usual', (rank) => rank.against_usual_bytes),
    bytesColumn('peak_reserved_bytes', 'Reserved', (rank) => rank.reserved_bytes),
    ...ifAny(
      (rank) => rank.failed_bytes,
      bytesColumn('out_of_memory_bytes', 'Out of memory', (rank) => rank.failed_bytes),
    ),
    ...ifAny(
      (rank) => rank.leak,
      textColumn('leak', 'Leak', (rank) => rank.leak ?? ''),
    ),
    ...ifAny(
      (rank) => rank.unread_because,
      textColumn('unread_because', 'Not read', (rank) => rank.unread_because ?? ''),
    ),
    textColumn('file', 'File', (rank) => rank.file, true),
  ];
}
