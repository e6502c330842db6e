import { expect, test } from 'vitest';
import type { Viewport } from '../numbers/scale';
import type { Steps } from '../source/source';
import { stepAt, stepLabels, stepRows } from './step-row';

/** Steps of ten events each. */
function steps(count: number, unusual: number[] = []): Steps {
  const each = (of: (step: number) => number) => Array.from({ length: count }, (_, step) => of(step));
  return {
    told: '',
    highest: 0,
    median: 0,
    unusual,
    first_unusual: null,
    from: Uint32Array.from(each((step) => 10 * step)),
    to: Uint32Array.from(each((step) => 10 * (step + 1))),
    from_us: new Float64Array(),
    to_us: new Float64Array(),
    peak: each(() => 1),
    peak_moment: each((step) => 10 * step),
    allocated: each(() => 1),
    allocations: each(() => 1),
    kept: each(() => 0),
  };
}

const viewport = (from: number, to: number): Viewport => ({ from, to, low: 0, high: 1, width: 1000, height: 10 });
/** Each character is six pixels wide. */
const labels = (of: Steps, from: number, to: number) =>
  stepLabels(stepRows(of, 'events'), viewport(from, to), (text) => 6 * text.length);
const texts = (of: Steps, from: number, to: number) => labels(of, from, to).map(({ text }) => text);

test('every step has its number at its center if there is room', () => {
  expect(labels(steps(4), 0, 40)).toMatchObject([
    { text: '1', x: 125 },
    { text: '2', x: 375 },
    { text: '3', x: 625 },
    { text: '4', x: 875 },
  ]);
  // For a partly visible step, the center of the visible part.
  expect(labels(steps(4), 5, 15)).toMatchObject([
    { text: '1', x: 250 },
    { text: '2', x: 750 },
  ]);
  expect(texts(steps(4), 40, 50)).toEqual([]);
});

test('of many steps, round numbers stay, with gaps between them', () => {
  const many = steps(3000);
  const shown = labels(many, 0, 30_000);
  expect(shown.length).toBeGreaterThan(10);
  for (const { text } of shown) expect(Number(text.replace(',', '')) % 100).toBe(0);
  expect(texts(many, 10_000, 10_100)).toEqual([
    '1,001',
    '1,002',
    '1,003',
    '1,004',
    '1,005',
    '1,006',
    '1,007',
    '1,008',
    '1,009',
    '1,010',
  ]);
  const sorted = shown.map(({ x, text }) => [x - 3 * text.length, x + 3 * text.length] as const).sort(([a], [b]) => a - b);
  for (const [i, [left]] of sorted.entries()) expect(left).toBeGreaterThanOrEqual((sorted[i - 1]?.[1] ?? -6) + 6);
});

test('an unusual step keeps its number, and others give way', () => {
  const shown = texts(steps(3000, [0, 1398]), 0, 30_000);
  expect(shown.slice(0, 2)).toEqual(['1', '1,399']);
  expect(shown).not.toContain('1,400');
});

test('the step at a position, unusual steps before their neighbors', () => {
  const many = steps(30_000, [777]);
  expect(stepAt(many, 'events', viewport(0, 300_000), 7700)).toBe(777);
  expect(stepAt(many, 'events', viewport(7600, 7900), 7765)).toBe(776);
  expect(stepAt(many, 'events', viewport(0, 600_000), 400_000)).toBeNull();
});
