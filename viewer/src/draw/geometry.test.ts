import { expect, test } from 'vitest';
import type { Viewport } from '../numbers/scale';
import type { Regions } from '../source/source';
import { bandRowsOf, geometryAround, geometryIn, regionAt, visibleRegions } from './geometry';

const regions: Regions = {
  names: ['step', 'forward'],
  name: Uint32Array.of(0, 1, 0),
  depth: Uint8Array.of(0, 1, 0),
  from: Uint32Array.of(10, 20, 60),
  to: Uint32Array.of(50, 30, 90),
  from_us: Float64Array.of(100, 200, 600),
  to_us: Float64Array.of(500, 300, 900),
};
const viewport: Viewport = { from: 0, to: 100, low: 0, high: 1, width: 100, height: 10 };

test('a plot is whole device pixels', () => {
  const g = geometryIn(1000.3, 300, 0, 1.5);
  expect(g.plotWidth * 1.5).toBe(Math.round(g.plotWidth * 1.5));
  expect(g.left + g.plotWidth).toBeLessThan(1000);
});

test('in and around agree', () => {
  const inside = geometryIn(1000, 300, 2, 1);
  expect(geometryAround(inside.plotWidth, inside.plotHeight, 2)).toEqual(inside);
});

test('rows of the band', () => {
  expect(bandRowsOf(null, 4)).toBe(0);
  expect(bandRowsOf(regions, 4)).toBe(2);
  expect(bandRowsOf(regions, 1)).toBe(1);
});

test('regions in a viewport, at most one a pixel', () => {
  const seen = (over: Partial<Viewport>, depth: number, of = regions) => [
    ...visibleRegions(of, 'events', { ...viewport, ...over }, depth),
  ];
  expect(seen({}, 0)).toEqual([
    { region: 0, left: 10, right: 50 },
    { region: 2, left: 60, right: 90 },
  ]);
  expect(seen({}, 1)).toEqual([{ region: 1, left: 20, right: 30 }]);
  expect(seen({}, 2)).toEqual([]);
  expect(seen({ from: 40, to: 59 }, 0).map((s) => s.region)).toEqual([0]);
  expect(seen({ from: 51, to: 59 }, 0)).toEqual([]);
  const n = 100_000;
  const starts = Uint32Array.from({ length: n }, (_, i) => 3 * i);
  const many: Regions = {
    names: ['a'],
    name: new Uint32Array(n),
    depth: new Uint8Array(n),
    from: starts,
    to: starts.map((s) => s + 2),
    from_us: Float64Array.from(starts),
    to_us: Float64Array.from(starts),
  };
  const all = seen({ from: 0, to: 3 * n }, 0, many);
  expect(all.length).toBeGreaterThan(90);
  expect(all.length).toBeLessThanOrEqual(100);
  expect(seen({ from: 3000, to: 3005 }, 0, many).map((s) => s.region)).toEqual([1000, 1001]);
});

test('a region that reaches over later ones is seen to its end', () => {
  const crossing: Regions = { ...regions, depth: Uint8Array.of(0, 0, 0), to: Uint32Array.of(80, 30, 90) };
  expect([...visibleRegions(crossing, 'events', { ...viewport, from: 40, to: 50 }, 0)].map((s) => s.region)).toEqual([0]);
  expect(regionAt(crossing, 'events', viewport, 45, 0)).toBe(0);
});

test('regions under the pointer', () => {
  expect(regionAt(regions, 'events', viewport, 25, 0)).toBe(0);
  expect(regionAt(regions, 'events', viewport, 25, 1)).toBe(1);
  expect(regionAt(regions, 'events', viewport, 55, 0)).toBeNull();
  expect(regionAt(regions, 'time', { ...viewport, to: 1000 }, 700, 0)).toBe(2);
});
