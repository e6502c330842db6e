// Spans of the axis, such as regions and steps: which of any number are seen, and which lies at a place.

import { entryAt, numberAt } from './at';
import { firstThat } from './bisect';
import { atOf, xOf, type Range, type Viewport } from './scale';

/** Spans by their numbers: the moments at which they begin and end, and the same in microseconds. */
export interface Spans {
  from: Uint32Array;
  to: Uint32Array;
  from_us: Float64Array;
  to_us: Float64Array;
}

/** The ends of a span on the axis. */
export const spanEnds = (spans: Spans, number: number, axis: 'events' | 'time'): Range =>
  axis === 'time'
    ? [numberAt(spans.from_us, number), numberAt(spans.to_us, number)]
    : [numberAt(spans.from, number), numberAt(spans.to, number)];

/** The ends on the axis of what lies between two moments: what event `n` did is seen from `n + 1` on. */
export const momentsOnAxis = (spans: Spans, number: number, axis: 'events' | 'time'): Range => {
  const [from, to] = spanEnds(spans, number, axis);
  return axis === 'time' ? [from, to] : [from + 1, to + 1];
};

/** Spans that are drawn in one row. */
export interface Row {
  /** The numbers of the spans, by start. */
  numbers: readonly number[];
  ends: readonly Range[];
  /** For each the latest end among it and those before it, so that the values never fall and can be searched. */
  reach: readonly number[];
}

/** The row of some spans; `endsOf` tells where each lies on the axis. */
export function rowOf(numbers: readonly number[], endsOf: (number: number) => Range): Row {
  const ends = numbers.map(endsOf);
  let reached = -Infinity;
  return { numbers, ends, reach: ends.map(([, end]) => (reached = Math.max(reached, end))) };
}

/** What is made of spans for an axis, once as long as they are there. */
export function keptByAxis<S extends Spans, T>(make: (spans: S, axis: 'events' | 'time') => T): typeof make {
  const kept = new WeakMap<S, Partial<Record<'events' | 'time', T>>>();
  return (spans, axis) => {
    const known = kept.get(spans) ?? {};
    kept.set(spans, known);
    return (known[axis] ??= make(spans, axis));
  };
}

/** The position of the first span of a row that may reach `at`: all before it end earlier. */
const firstReaching = ({ reach }: Row, at: number) => firstThat(0, reach.length, (i) => entryAt(reach, i) >= at);

/** A span in a viewport, in pixels. */
export interface VisibleSpan {
  number: number;
  left: number;
  right: number;
}

/** The spans of a row that a viewport shows. Of several in one pixel only the first is given. */
export function* visibleSpans(row: Row, viewport: Viewport): Generator<VisibleSpan> {
  /** The right end of the last span that was given, in pixels. */
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

/** The span of a row at a place on the axis, of several the one that began last; null: none. */
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
