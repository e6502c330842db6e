import { expect, test } from 'vitest';
import { NONE, type Bands } from '../source/source';
import { highest, paintBands } from './band-shapes';

// Two bands at two moments; two pixel columns show the second moment, and the last column is beyond the end.
const bands: Bands = {
  column: Uint32Array.of(0, 1, 1, NONE),
  moment: Uint32Array.of(3, 9),
  bands: [
    { category: 0, bytes: Float64Array.of(10, 10) },
    { category: 4, bytes: Float64Array.of(0, 30) },
  ],
};

test('bands are stacked', () => {
  expect(highest(bands)).toEqual({ column: 1, bytes: 40 });
  const pixels = new Uint32Array(4 * 4).fill(9);
  paintBands(pixels, 4, bands, 40, [1, 2]);
  const rows = [0, 1, 2, 3].map((row) => [...pixels.subarray(4 * row, 4 * row + 4)]);
  expect(rows).toEqual([
    [0, 2, 2, 0],
    [0, 2, 2, 0],
    [0, 2, 2, 0],
    [1, 1, 1, 0],
  ]);
});

test('bands lower than a pixel still add to the height', () => {
  const thin: Bands = {
    column: Uint32Array.of(0),
    moment: Uint32Array.of(0),
    bands: Array.from({ length: 8 }, (_, category) => ({ category, bytes: Float64Array.of(1) })),
  };
  const pixels = new Uint32Array(2);
  paintBands(pixels, 2, thin, 8, [1, 2, 3, 4, 5, 6, 7, 8]);
  expect([...pixels].every((p) => p > 0)).toBe(true);
});
