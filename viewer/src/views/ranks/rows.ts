// The ranks in each row of the heat map, and their contents.

import { numberAt } from '../../numbers/at';
import type { RankTold, Ranks } from '../../source/source';
import type { Counter, Order } from '../../state/ranks';
import { count } from '../../text/units';

/** The most rows of a picture; with more ranks, several share a row. */
const MOST_ROWS = 512;

/** Ranks by position, in rows of equal size. */
export interface Rows {
  ranks: readonly number[];
  perRow: number;
  count: number;
}

export const peakOf = (rank: RankTold, counter: Counter) =>
  counter === 'allocated' ? rank.allocated_bytes : rank.reserved_bytes;

/** Returns the ranks in an order. Ranks that could not be read come last, except in rank order. */
export function rowsOf({ ranks }: Ranks, order: Order, counter: Counter): Rows {
  const all = [...ranks.keys()];
  const key = (at: number): number => {
    const rank = ranks[at];
    if (!rank || rank.kind === null) return Infinity;
    return order === 'kind' ? rank.kind : -(peakOf(rank, counter) ?? 0);
  };
  // The sort is stable, so equal ranks keep their order.
  if (order !== 'rank') {
    const keys = all.map(key);
    all.sort((a, b) => (keys[a] === keys[b] ? a - b : (keys[a] ?? 0) - (keys[b] ?? 0)));
  }
  const perRow = Math.max(Math.ceil(all.length / MOST_ROWS), 1);
  return { ranks: all, perRow, count: Math.ceil(all.length / perRow) };
}

export const ranksIn = ({ ranks, perRow }: Rows, row: number) => ranks.slice(row * perRow, (row + 1) * perRow);

/** Returns the bytes of a rank in a cell. */
export const bytesAt = (told: Ranks, counter: Counter, rank: number, cell: number) =>
  numberAt(told[counter], rank * told.cells + cell);

/** Returns the readable rank of a row with most bytes in a cell, or null. */
export function highestIn(told: Ranks, counter: Counter, ranks: readonly number[], cell: number): number | null {
  let highest: number | null = null;
  for (const rank of ranks) {
    if (told.ranks[rank]?.kind === null) continue;
    if (highest === null || bytesAt(told, counter, rank, cell) > bytesAt(told, counter, highest, cell)) highest = rank;
  }
  return highest;
}

/** Adjacent cells with one color. */
export interface Run {
  from: number;
  to: number;
  level: number;
}

/** Splits a row into runs of levels; `levels` is the number of levels up to the end of the scale. Empty if no rank could be read. */
export function runsOf(told: Ranks, counter: Counter, ranks: readonly number[], levels: number): Run[] {
  const runs: Run[] = [];
  for (let cell = 0; cell < told.cells; cell += 1) {
    const highest = highestIn(told, counter, ranks, cell);
    if (highest === null) return [];
    const share = bytesAt(told, counter, highest, cell) / Math.max(told.scales[counter].bytes, 1);
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

/** Returns the bands for hosts, parallel groups and kinds, if there are any. */
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

/** Kinds are numbered from 1, as in the command. */
export const kindOf = (rank: RankTold) => (rank.kind === null ? null : String(rank.kind + 1));

/** Adjacent rows whose ranks share a value; null if they have several values, or none. */
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

/** Formats `rank 13`, or for a row of several `8 ranks, 8 to 15`, in display order. */
export function rowName(told: Ranks, ranks: readonly number[]): string {
  const [first, last] = [ranks[0], ranks.at(-1)].map((at) => told.ranks[at ?? 0]?.rank ?? 0);
  return ranks.length > 1 ? `${count(ranks.length)} ranks, ${first} to ${last}` : `rank ${first}`;
}
