import { describe, expect, test } from 'vitest';
import type { Names } from '../source/source';
import { abgr, categoryColor, css, mix, oklch, parse, poolColor, sizeColor, stackColor, unknownColor } from './colors';

const names = (labels: string[]): Names => ({
  label: labels,
  file: labels,
  line: labels.map(() => 1),
  function: labels,
  code: labels.map(() => 'user'),
  ends: Uint32Array.of(2, 2, 3),
  frames: Uint32Array.of(0, 1, 1),
  own: Uint32Array.of(0, 0xffffffff, 1),
});

test('forms', () => {
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

describe('stacks', () => {
  const one = names(['a.py:1 f', 'b.py:2 g']);
  test('the same frames have the same colour in any recording', () => {
    expect(stackColor(names(['a.py:1 f', 'b.py:2 g']), 0, false)).toBe(stackColor(one, 0, false));
    expect(stackColor(names(['c.py:1 f', 'b.py:2 g']), 0, false)).not.toBe(stackColor(one, 0, false));
  });
  test('an empty one has none', () => {
    expect(stackColor(one, 1, true)).toBe(unknownColor(true));
    expect(stackColor(one, 0xffffffff, true)).toBe(unknownColor(true));
    expect(stackColor(undefined, 0, true)).toBe(unknownColor(true));
  });
});

test('keys that are none', () => {
  expect(categoryColor('UNKNOWN', false)).toBe(categoryColor(null, false));
  expect(poolColor(null, false)).not.toBe(poolColor([0, 0], false));
  expect(sizeColor(0, false)).toBe(sizeColor(512, false));
});
