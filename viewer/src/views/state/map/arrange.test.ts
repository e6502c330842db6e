import { expect, test } from 'vitest';
import type { Layout, Tags } from '../../../source/source';
import {
  HEADING,
  LINE,
  POOL_TITLE,
  arrange,
  blocksInOrder,
  drawnBytes,
  envelopeAt,
  fittingLine,
  piecesBetween,
  placeAt,
  placeOfBlock,
  spans,
} from './arrange';
import { joinExpandable } from './join';

const MIB = 1 << 20;
const tags: Tags[] = [
  { stream: 0, pool: [0, 0], layer: null, recorded_category: null, compile_context: null, user_metadata: null },
  { stream: 3, pool: [0, 0], layer: null, recorded_category: null, compile_context: null, user_metadata: null },
];
const withPrivate: Tags[] = [tags[0]!, { ...tags[1]!, pool: [0, 1] }];

/** Segments as [address, bytes, tags], blocks as [address, bytes, requested, pending], in MiB. */
function layoutOf(segments: number[][], blocks: number[][]): Layout {
  const f64 = (rows: number[][], i: number) => Float64Array.from(rows, (r) => (r[i] ?? 0) * MIB);
  const zeros = (n: number) => new Uint32Array(n);
  return {
    moment: 1,
    counters: { requested: 0, allocated: 0, active: 0, reserved: 0 },
    segments: {
      address: f64(segments, 0),
      bytes: f64(segments, 1),
      tags: Uint32Array.from(segments, (s) => s[2] ?? 0),
      kind: Uint8Array.from(segments, () => 1),
      expandable: new Uint8Array(segments.length),
      stack: zeros(segments.length),
      from: zeros(segments.length),
    },
    blocks: {
      allocation: Uint32Array.from(blocks.keys()),
      address: f64(blocks, 0),
      bytes: f64(blocks, 1),
      requested: f64(blocks, 2),
      pending: Uint8Array.from(blocks, (b) => b[3] ?? 0),
      stack: zeros(blocks.length),
      purpose: new Uint8Array(),
      tags: zeros(blocks.length),
      from: zeros(blocks.length),
      preexisting: new Uint8Array(blocks.length),
    },
  };
}

const layout = layoutOf(
  [
    [100, 20],
    [200, 2, 1],
    [300, 250],
  ],
  [
    [100, 4, 3],
    [110, 2, 2, 1],
    [300, 100, 100],
    [500, 50, 50],
  ],
);

test('groups have the sums of their segments and blocks', () => {
  const { groups } = arrange(layout, tags, 'address', 1000, 100 * MIB);
  expect(
    groups.map((g) => [
      g.label,
      g.segments,
      g.reserved / MIB,
      g.allocated / MIB,
      g.pending / MIB,
      g.free / MIB,
      g.largestFree / MIB,
    ]),
  ).toEqual([
    ['default pool · default stream · large', 2, 270, 154, 2, 114, 100],
    ['default pool · stream 0x3 · large', 1, 2, 0, 0, 2, 2],
  ]);
  expect(drawnBytes(layout)).toEqual({ requested: 155 * MIB, allocated: 154 * MIB, active: 156 * MIB, reserved: 272 * MIB });
});

test('segments flow in lines, and long ones wrap', () => {
  const { pieces, groups } = arrange(layout, tags, 'address', 1000, 100 * MIB);
  expect(pieces.map((p) => [p.segment, p.from / MIB, p.to / MIB, p.x, p.y, p.width])).toEqual([
    [0, 0, 20, 0, HEADING, 200],
    [2, 0, 100, 0, HEADING + LINE, 1000],
    [2, 100, 200, 0, HEADING + 2 * LINE, 1000],
    [2, 200, 250, 0, HEADING + 3 * LINE, 500],
    [1, 0, 2, 0, (groups[1]?.top ?? NaN) + HEADING, 20],
  ]);
  expect(arrange(layout, tags, 'size', 1000, 100 * MIB).pieces[0]?.segment).toBe(2);
});

test('private pools, and the default pool beside them, have outlines around their segments', () => {
  expect(arrange(layout, tags, 'address', 1000, 100 * MIB).envelopes).toEqual([]);
  const a = arrange(layout, withPrivate, 'address', 1000, 100 * MIB);
  expect(a.envelopes.map(({ pool, label }) => [pool, label])).toEqual([
    [[0, 0], 'default pool'],
    [[0, 1], 'private pool (0, 1)'],
  ]);
  expect(a.groups.map((g) => [g.label, g.short])).toEqual([
    ['default pool · default stream · large', 'default stream · large'],
    ['private pool (0, 1) · stream 0x3 · large', 'stream 0x3 · large'],
  ]);
  const poolOf = (segment: number) => a.envelopes[segment === 1 ? 1 : 0]!;
  for (const piece of a.pieces) {
    const { top, bottom } = poolOf(piece.segment);
    expect(piece.y >= top + POOL_TITLE + HEADING && piece.y + LINE <= bottom).toBe(true);
    expect(piece.x > 0 && piece.x + piece.width < 1000).toBe(true);
    expect(envelopeAt(a, piece.y)).toBe(poolOf(piece.segment));
  }
  expect(a.envelopes[0]!.bottom).toBeLessThan(a.envelopes[1]!.top);
  // The scale is the same, so the pieces of a segment have all its bytes.
  const widths = (segment: number) => a.pieces.filter((p) => p.segment === segment).reduce((sum, p) => sum + p.width, 0);
  expect(widths(2)).toBeCloseTo(2500);
});

test('every position is a block, a free range or nothing', () => {
  const a = arrange(layout, tags, 'address', 1000, 100 * MIB);
  const at = (x: number, y: number) => {
    const p = placeAt(a, layout, x, y);
    return p && [p.segment, p.block, p.address / MIB, p.bytes / MIB];
  };
  expect(at(39, HEADING + 1)).toEqual([0, 0, 100, 4]);
  expect(at(41, HEADING + 1)).toEqual([0, null, 104, 6]);
  expect(at(125, HEADING + 1)).toEqual([0, null, 112, 8]);
  expect(at(300, HEADING + 1)).toBeNull();
  expect(at(250, HEADING + 3 * LINE + 1)).toEqual([2, 3, 500, 50]);
  expect(at(10, 5)).toBeNull();
});

test('blocks are in drawing order', () => {
  const byAddress = arrange(layout, tags, 'address', 1000, 100 * MIB);
  const bySize = arrange(layout, tags, 'size', 1000, 100 * MIB);
  expect(blocksInOrder(byAddress, layout)).toEqual([0, 1, 2, 3]);
  expect(blocksInOrder(bySize, layout)).toEqual([2, 3, 0, 1]);
  const astray = layoutOf(
    [[100, 20]],
    [
      [110, 2, 2],
      [130, 2, 2],
    ],
  );
  expect(blocksInOrder(arrange(astray, tags, 'address', 1000, 100 * MIB), astray)).toEqual([0]);
  expect([0, 1, 2, 3].map((b) => placeOfBlock(byAddress, layout, b).segment)).toEqual([0, 0, 2, 2]);
  expect(placeOfBlock(byAddress, layout, 1)).toEqual(placeAt(byAddress, layout, 105, HEADING + 1));
});

test('a range over several lines has a rectangle in each', () => {
  const a = arrange(layout, tags, 'address', 1000, 100 * MIB);
  const long = a.pieces.filter((p) => p.segment === 2);
  expect(spans(long, 50 * MIB, 210 * MIB)).toEqual([
    { x: 500, y: HEADING + LINE, width: 500 },
    { x: 0, y: HEADING + 2 * LINE, width: 1000 },
    { x: 0, y: HEADING + 3 * LINE, width: 100 },
  ]);
});

test('only pieces between two heights are drawn', () => {
  const a = arrange(layout, tags, 'address', 1000, 100 * MIB);
  expect(piecesBetween(a, HEADING + 2 * LINE, HEADING + 2 * LINE + 1).map((p) => p.from / MIB)).toEqual([0, 100]);
});

test('bytes per line are a power of two, enough to fit everything', () => {
  const line = fittingLine(8 * 1024 * MIB, 500);
  expect(Math.log2(line) % 1).toBe(0);
  expect(Math.ceil((8 * 1024 * MIB) / line) * LINE).toBeLessThan(500);
});

test('touching pieces of an expandable segment are joined, so that blocks may span them', () => {
  const pieces = layoutOf(
    [
      [100, 20],
      [120, 20],
      [140, 20],
      [200, 20],
    ],
    [[110, 25, 25]],
  );
  pieces.segments.expandable.set([1, 1, 0, 1]);
  const { segments } = joinExpandable(pieces);
  expect([...segments.address].map((a) => a / MIB)).toEqual([100, 140, 200]);
  expect([...segments.bytes].map((b) => b / MIB)).toEqual([40, 20, 20]);
  expect(joinExpandable(layout)).toBe(layout);
});
