import { expect, test } from 'vitest';
import { entryAt } from '../../numbers/at';
import { NONE, type Segments, type Tags } from '../../source/source';
import { HEADING, barsBetween, fitTracks, layTracks } from './tracks';

const MIB = 1 << 20;
const tags: Tags[] = [
  { stream: 0, pool: [0, 0], layer: null, recorded_category: null, compile_context: null, user_metadata: null },
  { stream: 0, pool: [0, 1], layer: null, recorded_category: null, compile_context: null, user_metadata: null },
];

/** Rows: address and bytes in MiB, from, to, tags, expandable. */
function segmentsOf(rows: number[][]): Segments {
  const u32 = (i: number) => Uint32Array.from(rows, (r) => r[i] ?? 0);
  return {
    address: Float64Array.from(rows, (r) => (r[0] ?? NaN) * MIB),
    bytes: Float64Array.from(rows, (r) => (r[1] ?? NaN) * MIB),
    from: u32(2),
    to: u32(3),
    tags: u32(4),
    kind: Uint8Array.from(rows, () => 1),
    expandable: Uint8Array.from(rows, (r) => r[5] ?? 0),
    stack: u32(6),
    pools: [],
    courses: [],
  };
}

test('a range reserved again keeps its track, neighbors have their own', () => {
  const { tracks } = layTracks(
    segmentsOf([
      [100, 20, 0, 5],
      [120, 2, 0, NONE],
      [100, 20, 7, NONE],
    ]),
    tags,
  );
  expect(tracks.map((t) => t.members)).toEqual([[0, 2], [1]]);
});

test('pieces of an expandable segment share a track, in address order without gaps', () => {
  const { tracks, bars } = layTracks(
    segmentsOf([
      [100, 10, 0, 9, 0, 1],
      [110, 10, 1, NONE, 0, 1],
      [900, 20, 2, NONE, 0, 1],
      [100, 5, 12, NONE, 0, 1],
    ]),
    tags,
  );
  expect(tracks).toHaveLength(1);
  const { top, height } = entryAt(tracks, 0);
  expect(bars.map((b) => [b.segment, Math.round(((b.y - top) / height) * 40), Math.round((b.height / height) * 40)])).toEqual([
    [0, 0, 10],
    [3, 0, 5],
    [1, 10, 10],
    [2, 20, 20],
  ]);
});

test('pools have separate headings', () => {
  const laid = layTracks(
    segmentsOf([
      [100, 20, 0, NONE],
      [200, 20, 0, NONE],
      [300, 2, 0, NONE, 1],
    ]),
    tags,
  );
  expect(laid.groups.map((g) => [g.label, g.ranges])).toEqual([
    ['default pool, default stream', 2],
    ['private pool (0, 1), default stream', 1],
  ]);
  expect(laid.bars[0]?.y).toBe(HEADING);
  expect(barsBetween(laid.bars, HEADING, HEADING + 1).map((b) => b.segment)).toEqual([0]);
});

test('tracks are higher where there is room, and keep their heights where there is none', () => {
  const segments = segmentsOf([
    [100, 20, 0, NONE],
    [120, 2, 0, NONE],
  ]);
  const plain = layTracks(segments, tags);
  expect(fitTracks(segments, tags, plain.height)).toEqual(plain);
  expect(fitTracks(segments, tags, 10)).toEqual(plain);
  const higher = fitTracks(segments, tags, plain.height + 12);
  expect(higher.height).toBeLessThanOrEqual(plain.height + 12);
  expect(higher.height).toBeGreaterThan(plain.height + 8);
  const highest = fitTracks(segments, tags, 2000);
  expect(highest.tracks.map(({ height }) => height)).toEqual(plain.tracks.map(({ height }) => 4 * height));
});
