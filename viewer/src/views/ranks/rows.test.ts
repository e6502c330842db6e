import { expect, test } from 'vitest';
import type { RankTold, Ranks } from '../../source/source';
import { bandsOf, highestIn, ranksIn, rowName, rowsOf, runsOf, stretchesOf } from './rows';

const CELLS = 4;

/** Ranks with these kinds and bytes in each cell; ranks without a kind could not be read. */
function job(all: { kind: number | null; bytes: number[]; host?: string }[]): Ranks {
  const ranks = all.map(
    ({ kind, bytes, host }, rank): RankTold => ({
      rank,
      host: host ?? null,
      groups: {},
      file: '',
      unread_because: kind === null ? 'empty' : null,
      kind,
      allocated_bytes: kind === null ? null : Math.max(...bytes),
      against_usual_bytes: 0,
      reserved_bytes: null,
      failed_bytes: null,
      failed_cell: null,
      leak: null,
    }),
  );
  const allocated = Float64Array.from(all.flatMap(({ bytes }) => bytes));
  return {
    ranks,
    allocated,
    reserved: allocated,
    cells: CELLS,
    scales: { allocated: { bytes: 100 }, reserved: { bytes: 200 } },
    groups: [],
  } as unknown as Ranks;
}

const FOUR = job([
  { kind: 1, bytes: [10, 20, 20, 30], host: 'a' },
  { kind: null, bytes: [0, 0, 0, 0], host: 'a' },
  { kind: 0, bytes: [10, 10, 10, 90], host: 'b' },
  { kind: 1, bytes: [99, 100, 50, 5], host: 'b' },
]);

test('ranks are ordered by number, kind or peak, unread ones last', () => {
  expect(rowsOf(FOUR, 'rank', 'allocated').ranks).toEqual([0, 1, 2, 3]);
  expect(rowsOf(FOUR, 'kind', 'allocated').ranks).toEqual([2, 0, 3, 1]);
  expect(rowsOf(FOUR, 'peak', 'allocated').ranks).toEqual([3, 2, 0, 1]);
});

test('of several ranks in a row, the highest counts in each cell', () => {
  const rows = { ...rowsOf(FOUR, 'rank', 'allocated'), perRow: 2, count: 2 };
  const [first, second] = [ranksIn(rows, 0), ranksIn(rows, 1)];
  expect(highestIn(FOUR, 'allocated', first, 3)).toBe(0);
  expect([0, 1, 2, 3].map((cell) => highestIn(FOUR, 'allocated', second, cell))).toEqual([3, 3, 3, 2]);
  expect(rowName(FOUR, second)).toBe('2 ranks, 2 to 3');
  expect(rowName(FOUR, [3])).toBe('rank 3');
  const many = job(Array.from({ length: 1200 }, () => ({ kind: 0, bytes: [1, 1, 1, 1] })));
  expect(rowsOf(many, 'rank', 'allocated')).toMatchObject({ perRow: 3, count: 400 });
});

test('cells of one level form a run, and the end of the scale is the highest level', () => {
  expect(runsOf(FOUR, 'allocated', [0], 10)).toEqual([
    { from: 0, to: 1, level: 1 },
    { from: 1, to: 3, level: 2 },
    { from: 3, to: 4, level: 3 },
  ]);
  expect(runsOf(FOUR, 'allocated', [3], 10).map((run) => run.level)).toEqual([9, 5, 0]);
  expect(runsOf(FOUR, 'allocated', [1], 10)).toEqual([]);
});

test('bands join rows of one value; properties without values have no band', () => {
  const bands = bandsOf(FOUR);
  expect(bands.map(({ name }) => name)).toEqual(['host', 'kind']);
  const rows = rowsOf(FOUR, 'rank', 'allocated');
  expect(stretchesOf(FOUR, rows, bands[0]!)).toEqual([
    { from: 0, to: 2, value: 'a' },
    { from: 2, to: 4, value: 'b' },
  ]);
  // A row whose ranks have several values has none.
  expect(stretchesOf(FOUR, { ...rows, perRow: 4, count: 1 }, bands[0]!)).toEqual([{ from: 0, to: 1, value: null }]);
});
