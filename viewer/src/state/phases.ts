// The phases of the program's steps, and moving between them.

import { batch, computed } from '@preact/signals';
import { entryAt, numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import { momentsOnAxis } from '../numbers/spans';
import { shownMoment, moment } from './moment';
import { showSelected } from './moves';
import { current } from './recordings';
import { chooseInterval, interval } from './interval';
import { axis } from './window';

/** The phases of the shown device; null if none are known, or until they are. */
export const phases = computed(() => current.value?.phases ?? null);

/** Zooms to one phase, and chooses it as the interval and its peak as the moment. */
export function showPhase(number: number): void {
  const all = phases.value;
  if (!all) return;
  batch(() => {
    moment.value = entryAt(all.peak_moment, number);
    chooseInterval([numberAt(all.from, number), numberAt(all.to, number)]);
    showSelected(momentsOnAxis(all, number, axis.value));
  });
}

/** Zooms to the phase with the chosen moment; if a phase is already chosen, to the next or previous one. */
export function nextPhase(by: 1 | -1): void {
  const all = phases.value;
  if (!all) return;
  const last = all.phase.length - 1;
  const [from, to] = interval.value ?? [NaN, NaN];
  const chosen = all.from.indexOf(from);
  if (chosen >= 0 && all.to[chosen] === to) showPhase(Math.min(Math.max(chosen + by, 0), last));
  else showPhase(firstThat(0, last, (number) => numberAt(all.to, number) >= shownMoment.value));
}
