import { expect, test } from 'vitest';
import type { Viewport } from './scale';
import { rowOf, spanAt, spanEnds, visibleSpans, type Row, type Spans } from './spans';

const spans: Spans = {
  from: Uint32Array.of(10, 20, 60),
  to: Uint32Array.of(50, 30, 90),
  from_us: Float64Array.of(100, 200, 600),
  to_us: Float64Array.of(500, 300, 900),
};
const row = (of: Spans, numbers: number[], axis: 'events' | 'time' = 'events') =>
  rowOf(numbers, (number) => spanEnds(of, number, axis));
const outer = row(spans, [0, 2]);
const inner = row(spans, [1]);
const viewport: Viewport = { from: 0, to: 100, low: 0, high: 1, width: 100, height: 10 };
const seen = (row: Row, over: Partial<Viewport> = {}) => [...visibleSpans(row, { ...viewport, ...over })];

test('intervals in a viewport, at most one per pixel', () => {
  expect(seen(outer)).toEqual([
    { number: 0, left: 10, right: 50 },
    { number: 2, left: 60, right: 90 },
  ]);
  expect(seen(inner)).toEqual([{ number: 1, left: 20, right: 30 }]);
  expect(seen(row(spans, []))).toEqual([]);
  expect(seen(outer, { from: 40, to: 59 }).map((s) => s.number)).toEqual([0]);
  expect(seen(outer, { from: 51, to: 59 })).toEqual([]);
  const n = 100_000;
  const starts = Uint32Array.from({ length: n }, (_, i) => 3 * i);
  const ends = starts.map((s) => s + 2);
  const many: Spans = { from: starts, to: ends, from_us: Float64Array.from(starts), to_us: Float64Array.from(ends) };
  const all = seen(row(many, [...starts.keys()]), { from: 0, to: 3 * n });
  expect(all.length).toBeGreaterThan(90);
  expect(all.length).toBeLessThanOrEqual(100);
  expect(seen(row(many, [...starts.keys()]), { from: 3000, to: 3005 }).map((s) => s.number)).toEqual([1000, 1001]);
});

test('an interval that reaches beyond later ones is visible to its end', () => {
  const crossing = row({ ...spans, to: Uint32Array.of(80, 30, 90) }, [0, 1, 2]);
  expect(seen(crossing, { from: 40, to: 50 }).map((s) => s.number)).toEqual([0]);
  expect(spanAt(crossing, viewport, 45)).toBe(0);
});

test('the interval at a position', () => {
  expect(spanAt(outer, viewport, 25)).toBe(0);
  expect(spanAt(inner, viewport, 25)).toBe(1);
  expect(spanAt(outer, viewport, 55)).toBeNull();
  expect(spanAt(row(spans, [0, 2], 'time'), { ...viewport, to: 1000 }, 700)).toBe(2);
});
