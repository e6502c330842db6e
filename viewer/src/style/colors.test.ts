import { describe, expect, test } from 'vitest';
import { CATEGORIES } from '../source/source';
import { SHADES, abgr, categoryColor, css, groupColor, mix, oklch, parse, sizeColor } from './colors';

test('formats', () => {
  expect(css(0x00ff10)).toBe('#00ff10');
  expect(abgr(0x123456)).toBe(0xff563412);
  expect(parse('rgb(1, 2, 255)')).toBe(0x0102ff);
  expect(parse('#0a0b0c')).toBe(0x0a0b0c);
  expect(mix(0x000000, 0xff8040, 0.5)).toBe(0x804020);
});

test('oklch', () => {
  expect(oklch(1, 0, 0)).toBe(0xffffff);
  expect(oklch(0, 0, 0)).toBe(0);
  expect(css(oklch(0.628, 0.2577, 29.23))).toMatch(/^#f[ef]0[0-9a-f]0[0-9a-f]$/);
});

test('sizes below the smallest have its color', () => {
  expect(sizeColor(0, false)).toBe(sizeColor(512, false));
});

/** Simulates each kind of color blindness: matrices of linear sRGB (Machado, Oliveira, Fernandes 2009, severity 1). */
const SIGHTS: Record<string, number[][]> = {
  full: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const linear = (color: number) =>
  [16, 8, 0].map((shift) => {
    const x = ((color >>> shift) & 255) / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
const times = (matrix: number[][], v: number[]) => matrix.map((row) => row.reduce((sum, a, i) => sum + a * v[i]!, 0));

/** Converts a color to Oklab, where distances match perception. */
function oklab(rgb: number[]): number[] {
  const lms = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb.map((x) => Math.min(Math.max(x, 0), 1)),
  );
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    lms.map(Math.cbrt),
  );
}

describe.each([false, true])('categories, dark: %s', (dark) => {
  test.each(Object.keys(SIGHTS))('all can be told from each other with %s sight, those of a training step at once', (sight) => {
    const seen = CATEGORIES.map((category) => oklab(times(SIGHTS[sight]!, linear(categoryColor(category, dark)))));
    const often = ['parameter', 'gradient', 'optimizer_state', 'activation', 'temporary'];
    CATEGORIES.forEach((a, i) => {
      CATEGORIES.slice(0, i).forEach((b, j) => {
        const distance = Math.hypot(...seen[i]!.map((x, k) => x - seen[j]![k]!));
        expect(distance, `${a} and ${b}`).toBeGreaterThan(often.includes(a) && often.includes(b) ? 0.11 : 0.05);
      });
    });
  });

  test('all stand out from the background', () => {
    const ground = oklab(linear(dark ? 0x14161a : 0xffffff))[0]!;
    for (const category of CATEGORIES) {
      expect(Math.abs(oklab(linear(categoryColor(category, dark)))[0]! - ground), category).toBeGreaterThan(0.15);
    }
  });
});

describe.each([false, true])('groups, dark: %s', (dark) => {
  const all = Array.from({ length: SHADES }, (_, shade) => groupColor(shade, false, dark));

  test.each(Object.keys(SIGHTS))('the largest can be told from each other with %s sight', (sight) => {
    const seen = all.map((color) => oklab(times(SIGHTS[sight]!, linear(color))));
    const distances = seen.flatMap((a, i) => seen.slice(0, i).map((b) => Math.hypot(...a.map((x, k) => x - b[k]!))));
    expect(Math.min(...distances)).toBeGreaterThan(sight === 'full' ? 0.09 : 0.05);
  });

  test('all stand out from the background', () => {
    const ground = oklab(linear(dark ? 0x14161a : 0xffffff))[0]!;
    for (const color of all) expect(Math.abs(oklab(linear(color))[0]! - ground), css(color)).toBeGreaterThan(0.15);
  });
});
