// Which ranks stand in which row of the heat map, and what is drawn of them.

import { numberAt } from '../../numbers/at';
import type { RankTold, Ranks } from '../../source/generated/ranks';
import type { Counter, Order } from '../../state/ranks';
import { count } from '../../text/units';

/** The most rows that a picture has; where there are more ranks, several share a row. */
const MOST_ROWS = 512;

/** Ranks, by their positions, in rows of so many. */
export interface Rows {
  ranks: readonly number[];
  perRow: number;
  count: number;
}

export const peakOf = (rank: RankTold, counter: Counter) =>
  counter === 'allocated' ? rank.allocated_bytes : rank.reserved_bytes;

/** Ranks in an order; those that could not be read come last where it is not that of their numbers. */
export function rowsOf({ ranks }: Ranks, order: Order, counter: Counter): Rows {
  const all = [...ranks.keys()];
  const key = (at: number): number => {
    const rank = ranks[at];
    if (!rank || rank.kind === null) return Infinity;
    return order === 'kind' ? rank.kind : -(peakOf(rank, counter) ?? 0);
  };
  // Sorting keeps the order of those that are alike.
  if (order !== 'rank') {
    const keys = all.map(key);
    all.sort((a, b) => (keys[a] === keys[b] ? a - b : (keys[a] ?? 0) - (keys[b] ?? 0)));
  }
  const perRow = Math.max(Math.ceil(all.length / MOST_ROWS), 1);
  return { ranks: all, perRow, count: Math.ceil(all.length / perRow) };
}

export const ranksIn = ({ ranks, perRow }: Rows, row: number) => ranks.slice(row * perRow, (row + 1) * perRow);

/** The bytes of a rank in a cell. */
export const bytesAt = (told: Ranks, counter: Counter, rank: number, cell: number) =>
  numberAt(told[counter], rank * told.cells + cell);

/** Of the ranks of a row that could be read the one with most bytes in a cell; null where none could be. */
export function highestIn(told: Ranks, counter: Counter, ranks: readonly number[], cell: number): number | null {
  let highest: number | null = null;
  for (const rank of ranks) {
    if (told.ranks[rank]?.kind === null) continue;
    if (highest === null || bytesAt(told, counter, rank, cell) > bytesAt(told, counter, highest, cell)) highest = rank;
  }
  return highest;
}

/** Cells beside each other that have one colour. */
export interface Run {
  from: number;
  to: number;
  level: number;
}

/** A row in runs of levels, of which there are so many from no bytes to the end of the scale; none where no rank could be read. */
export function runsOf(told: Ranks, counter: Counter, ranks: readonly number[], levels: number): Run[] {
  const runs: Run[] = [];
  for (let cell = 0; cell < told.cells; cell += 1) {
    const highest = highestIn(told, counter, ranks, cell);
    if (highest === null) return [];
    const share = bytesAt(told, counter, highest, cell) / Math.max(told.scale_bytes, 1);
    const level = Math.min(Math.floor(share * levels), levels - 1);
    const last = runs.at(-1);
    if (last?.level === level) last.to = cell + 1;
    else runs.push({ from: cell, to: cell + 1, level });
  }
  return runs;
}

/** A property of ranks that is shown as a band. */
export interface Band {
  name: string;
  of: (rank: RankTold) => string | null;
}

/** Hosts, parallel groups and kinds: those that there are. */
export function bandsOf({ ranks, groups }: Ranks): Band[] {
  const bands: Band[] = [
    { name: 'host', of: (rank) => rank.host },
    ...groups.map((name) => ({
      name,
      of: (rank: RankTold) => (rank.groups[name] === undefined ? null : String(rank.groups[name])),
    })),
    { name: 'kind', of: kindOf },
  ];
  return bands.filter(({ of }) => ranks.some((rank) => of(rank) !== null));
}

/** Kinds are counted from 1, as the command does. */
export const kindOf = (rank: RankTold) => (rank.kind === null ? null : String(rank.kind + 1));

/** Rows beside each other whose ranks have one value; null where they have several, or none. */
export interface Stretch {
  from: number;
  to: number;
  value: string | null;
}

export function stretchesOf(told: Ranks, rows: Rows, { of }: Band): Stretch[] {
  const stretches: Stretch[] = [];
  for (let row = 0; row < rows.count; row += 1) {
    const values = new Set(ranksIn(rows, row).map((at) => of(told.ranks[at]!)));
    const value = values.size === 1 ? ([...values][0] ?? null) : null;
    const last = stretches.at(-1);
    if (last?.value === value) last.to = row + 1;
    else stretches.push({ from: row, to: row + 1, value });
  }
  return stretches;
}

/** `rank 13`, or of a row of several `ranks 8 to 15`, in the order in which they stand. */
export function rowName(told: Ranks, ranks: readonly number[]): string {
  const [first, last] = [ranks[0], ranks.at(-1)].map((at) => told.ranks[at ?? 0]?.rank ?? 0);
  return ranks.length > 1 ? `${count(ranks.length)} ranks, ${first} to ${last}` : `rank ${first}`;
}
