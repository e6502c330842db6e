// The span: the part of the recording that the user chose to ask about.

import type { Range } from '../numbers/scale';
import { keptOfDevice, oneOf, twoWholeNumbers } from './kept';
import { shownMoment } from './moment';
import { current } from './recordings';

/**
 * The moments at which the chosen span begins and ends; null: none is chosen. Within it are the events of these numbers, without the
 * last: moment `n` lies before event `n`.
 */
export const span = keptOfDevice('span', twoWholeNumbers, null);

/** Whether it is compared with the same part of the step before; null: it is not. */
export const spanCompared = keptOfDevice('spanwith', oneOf(['before']), null);

/** Chooses the span between two moments, of which the recording may lack some. */
export function chooseSpan([from, to]: Range): void {
  const last = current.value?.events ?? 0;
  const [begin, end] = [from, to].map((at) => Math.min(Math.max(Math.round(at), 0), last)) as Range;
  span.value = begin < end ? [begin, end] : null;
}

/** Lets the span begin at the shown moment; one that would end before it ends with the recording. */
export function beginSpan(): void {
  const at = shownMoment.value;
  const end = span.value?.[1] ?? Infinity;
  chooseSpan([at, end > at ? end : Infinity]);
}

/** Lets the span end at the shown moment; one that would begin after it begins with the recording. */
export function endSpan(): void {
  const at = shownMoment.value;
  const begin = span.value?.[0] ?? 0;
  chooseSpan([begin < at ? begin : 0, at]);
}
