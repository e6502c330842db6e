// The steps of the program, and moving between them.

import { batch, computed } from '@preact/signals';
import { entryAt, numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import type { Range } from '../numbers/scale';
import { spanEnds } from '../numbers/spans';
import type { Steps } from '../source/source';
import { moment, shownMoment } from './moment';
import { least, showSelected } from './moves';
import { current } from './recordings';
import { chooseInterval } from './interval';
import { axis, range } from './window';

/** The steps of the shown device; null if the program has no steps, or until they are known. */
export const steps = computed(() => current.value?.steps ?? null);

/** Returns a step's moments. `from` and `to` are the moments after its first event, and after the next step's first event. */
export const stepSpan = (all: Steps, step: number): Range => [numberAt(all.from, step) - 1, numberAt(all.to, step) - 1];

/** Zooms to one step, and chooses it as the interval and its peak as the moment. */
export function showStep(step: number): void {
  const all = steps.value;
  if (!all) return;
  batch(() => {
    moment.value = entryAt(all.peak_moment, step);
    chooseInterval(stepSpan(all, step));
    showSelected(spanEnds(all, step, axis.value));
  });
}

/** Zooms to the step with the chosen moment; if one step is already shown, to the next or previous one. */
export function nextStep(by: 1 | -1): void {
  const all = steps.value;
  if (!all) return;
  const last = all.peak.length - 1;
  const shown = range.value && shownStep(all, range.value);
  if (shown !== null) showStep(Math.min(Math.max(shown + by, 0), last));
  else showStep(firstThat(0, last, (step) => numberAt(all.to, step) > shownMoment.value));
}

/** Returns the step in the middle of a part of the axis that shows little else; null if it shows several. */
function shownStep(all: Steps, [from, to]: Range): number | null {
  const middle = (from + to) / 2;
  const step = firstThat(0, all.peak.length - 1, (step) => spanEnds(all, step, axis.value)[1] > middle);
  const [begin, end] = spanEnds(all, step, axis.value);
  return to - from <= Math.max(1.5 * (end - begin), least()) ? step : null;
}
