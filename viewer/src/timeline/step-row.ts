// The step row above the plot: the visible steps, their labels, and the step at a position.

import { entryAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import { xOf, type Viewport } from '../numbers/scale';
import { keptByAxis, rowOf, spanAt, spanEnds, visibleSpans, type Row } from '../numbers/spans';
import type { Axis, Steps } from '../source/source';
import { stepNumber } from '../text/units';

/** All steps, and the steps with unusual allocations. */
export interface StepRows {
  all: Row;
  unusual: Row;
}

export const stepRows = keptByAxis((steps: Steps, axis): StepRows => {
  const row = (numbers: number[]) => rowOf(numbers, (number) => spanEnds(steps, number, axis));
  return { all: row(steps.peak.map((_, step) => step)), unusual: row(steps.unusual) };
});

/** Returns the step at a position on the axis, or null. Unusual steps win over the neighbors that they are drawn over. */
export function stepAt(steps: Steps, axis: Axis, viewport: Viewport, at: number): number | null {
  const { all, unusual } = stepRows(steps, axis);
  return spanAt(unusual, viewport, at) ?? spanAt(all, viewport, at);
}

/** The label of a step, and the pixel position of the step's center. */
export interface StepLabel {
  text: string;
  x: number;
  isUnusual: boolean;
}

/** The least room between two labels, in pixels. */
const APART = 6;

/**
 * Returns the step labels that fit in a viewport: those of unusual steps first, then every, every second, fifth or tenth other step, and
 * so on. `widthOf` measures a text in pixels.
 */
export function stepLabels(rows: StepRows, viewport: Viewport, widthOf: (text: string, bold: boolean) => number): StepLabel[] {
  const labels: (StepLabel & { left: number; right: number })[] = [];
  const place = (step: number, [from, to]: readonly [number, number], isUnusual: boolean) => {
    const text = stepNumber(step);
    const half = widthOf(text, isUnusual) / 2;
    const middle = (Math.max(xOf(viewport, from), 0) + Math.min(xOf(viewport, to), viewport.width)) / 2;
    const x = Math.min(Math.max(middle, half), viewport.width - half);
    const [left, right] = [x - half - APART / 2, x + half + APART / 2];
    const isFree = labels.every((other) => right <= other.left || left >= other.right);
    if (isFree) labels.push({ text, x, isUnusual, left, right });
  };
  const { ends } = rows.all;
  for (const { number } of visibleSpans(rows.unusual, viewport)) place(number, entryAt(ends, number), true);
  const first = firstThat(0, ends.length, (step) => entryAt(ends, step)[1] > viewport.from);
  const last = firstThat(first, ends.length, (step) => entryAt(ends, step)[0] >= viewport.to);
  const most = viewport.width / (widthOf(stepNumber(last), false) + APART);
  const every = roundFrom((last - first) / most);
  for (let step = Math.ceil((first + 1) / every) * every - 1; step < last; step += every) {
    place(step, entryAt(ends, step), false);
  }
  return labels;
}

/** Returns the first of 1, 2, 5, 10, 20 ... that is at least `least`. */
function roundFrom(least: number): number {
  const power = 10 ** Math.max(Math.floor(Math.log10(least)), 0);
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) ?? power;
}
