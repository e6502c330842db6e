import { expect, test } from 'vitest';
import type { Regions } from '../source/source';
import { bandRowsOf, geometryAround, geometryIn, regionAt } from './geometry';
import type { Frame } from './scale';

const regions: Regions = {
  names: ['step', 'forward'],
  name: Uint32Array.of(0, 1, 0),
  depth: Uint8Array.of(0, 1, 0),
  from: Uint32Array.of(10, 20, 60),
  to: Uint32Array.of(50, 30, 90),
  from_us: Float64Array.of(100, 200, 600),
  to_us: Float64Array.of(500, 300, 900),
};
const frame: Frame = { from: 0, to: 100, low: 0, high: 1, width: 100, height: 10 };

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

test('regions under the pointer', () => {
  expect(regionAt(regions, 'events', frame, 25, 0)).toBe(0);
  expect(regionAt(regions, 'events', frame, 25, 1)).toBe(1);
  expect(regionAt(regions, 'events', frame, 55, 0)).toBeNull();
  expect(regionAt(regions, 'time', { ...frame, to: 1000 }, 700, 0)).toBe(2);
});
