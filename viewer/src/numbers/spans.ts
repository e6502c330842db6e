// Intervals on the axis, such as regions and steps: the visible ones, and the one at a position.

import { entryAt, numberAt } from './at';
import { firstThat } from './bisect';
import { atOf, xOf, type Range, type Viewport } from './scale';

/** Intervals by number: their first and last moments, and the same in microseconds. */
export interface Spans {
  from: Uint32Array;
  to: Uint32Array;
  from_us: Float64Array;
  to_us: Float64Array;
}

/** Returns the ends of an interval on the axis. */
export const spanEnds = (spans: Spans, number: number, axis: 'events' | 'time'): Range =>
  axis === 'time'
    ? [numberAt(spans.from_us, number), numberAt(spans.to_us, number)]
    : [numberAt(spans.from, number), numberAt(spans.to, number)];

/** Returns the ends on the axis of the events between two moments: the effect of event `n` is visible from `n + 1` on. */
export const momentsOnAxis = (spans: Spans, number: number, axis: 'events' | 'time'): Range => {
  const [from, to] = spanEnds(spans, number, axis);
  return axis === 'time' ? [from, to] : [from + 1, to + 1];
};

/** Intervals drawn in one row. */
export interface Row {
  /** The intervals' numbers, by start. */
  numbers: readonly number[];
  ends: readonly Range[];
  /** Per interval the latest end among it and those before it. The values never fall, so they can be searched. */
  reach: readonly number[];
}

/** Returns the row of some intervals; `endsOf` returns each interval's ends on the axis. */
export function rowOf(numbers: readonly number[], endsOf: (number: number) => Range): Row {
  const ends = numbers.map(endsOf);
  let reached = -Infinity;
  return { numbers, ends, reach: ends.map(([, end]) => (reached = Math.max(reached, end))) };
}

/** Caches the result of `make` per set of intervals and axis. */
export function keptByAxis<S extends Spans, T>(make: (spans: S, axis: 'events' | 'time') => T): typeof make {
  const kept = new WeakMap<S, Partial<Record<'events' | 'time', T>>>();
  return (spans, axis) => {
    const known = kept.get(spans) ?? {};
    kept.set(spans, known);
    return (known[axis] ??= make(spans, axis));
  };
}

/** Returns the position of the first interval that may reach `at`; all before it end earlier. */
const firstReaching = ({ reach }: Row, at: number) => firstThat(0, reach.length, (i) => entryAt(reach, i) >= at);

/** An interval in a viewport, in pixels. */
export interface VisibleSpan {
  number: number;
  left: number;
  right: number;
}

/** Yields the intervals of a row that a viewport shows, only the first of several in one pixel. */
export function* visibleSpans(row: Row, viewport: Viewport): Generator<VisibleSpan> {
  /** The right end of the last yielded interval, in pixels. */
  let full = -1;
  for (let i = firstReaching(row, viewport.from); i < row.numbers.length; ) {
    const [from, to] = entryAt(row.ends, i);
    if (from > viewport.to) return;
    const left = Math.max(xOf(viewport, from), 0);
    const right = Math.min(Math.max(xOf(viewport, to), left + 1), viewport.width);
    if (to >= viewport.from && right > full + 0.5) yield { number: entryAt(row.numbers, i), left, right: (full = right) };
    i = Math.max(i + 1, firstReaching(row, atOf(viewport, full)));
  }
}

/** Returns the interval at a position on the axis, the latest to begin if several are there, or null. */
export function spanAt(row: Row, viewport: Viewport, at: number): number | null {
  const slack = (viewport.to - viewport.from) / viewport.width;
  let found: number | null = null;
  for (let i = firstReaching(row, at - slack); i < row.numbers.length; i += 1) {
    const [from, to] = entryAt(row.ends, i);
    if (from > at + slack) break;
    if (to >= at - slack) found = entryAt(row.numbers, i);
  }
  return found;
}
