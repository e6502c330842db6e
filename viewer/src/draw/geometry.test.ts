import { expect, test } from 'vitest';
import type { Regions } from '../source/source';
import { NOTHING_ABOVE, bandRowsOf, geometryAround, geometryIn, regionRow } from './geometry';

const regions: Regions = {
  names: ['step', 'forward'],
  name: Uint32Array.of(0, 1, 0),
  row: Uint8Array.of(0, 1, 0),
  from: Uint32Array.of(10, 20, 60),
  to: Uint32Array.of(50, 30, 90),
  from_us: Float64Array.of(100, 200, 600),
  to_us: Float64Array.of(500, 300, 900),
};

test('a plot is aligned to device pixels', () => {
  const g = geometryIn(1000.3, 300, NOTHING_ABOVE, 1.5);
  expect(g.plotWidth * 1.5).toBe(Math.round(g.plotWidth * 1.5));
  expect(g.left + g.plotWidth).toBeLessThan(1000);
});

test('geometryIn and geometryAround agree', () => {
  for (const rows of [
    NOTHING_ABOVE,
    { notes: 0, regions: 2, phases: false, steps: false },
    { notes: 1, regions: 0, phases: false, steps: true },
    { notes: 0, regions: 0, phases: true, steps: false },
    { notes: 2, regions: 2, phases: true, steps: true },
  ]) {
    const inside = geometryIn(1000, 300, rows, 1);
    expect(geometryAround(inside.plotWidth, inside.plotHeight, rows)).toEqual(inside);
  }
});

test('the rows of phases and steps are between the regions and the plot', () => {
  const g = geometryIn(1000, 300, { notes: 1, regions: 2, phases: true, steps: true }, 1);
  expect(g.phaseTop).toBe(geometryIn(1000, 300, { notes: 1, regions: 2, phases: false, steps: false }, 1).top);
  expect(g.stepTop).toBeGreaterThan(g.phaseTop!);
  expect(g.top).toBeGreaterThan(g.stepTop!);
  expect(geometryIn(1000, 300, NOTHING_ABOVE, 1).stepTop).toBeNull();
});

test('rows of the regions', () => {
  expect(bandRowsOf(null, 4)).toBe(0);
  expect(bandRowsOf(regions, 4)).toBe(2);
  expect(bandRowsOf(regions, 1)).toBe(1);
  expect(regionRow(regions, 'events', 0)?.numbers).toEqual([0, 2]);
  expect(regionRow(regions, 'time', 1)?.ends).toEqual([[200, 300]]);
  // Between moments 20 and 30 are events 20 to 29, which are visible at moments 21 to 30.
  expect(regionRow(regions, 'events', 1)?.ends).toEqual([[21, 31]]);
  expect(regionRow(regions, 'events', 2)).toBeNull();
});
