// The interval of the recording that the user chose.

import type { Range } from '../numbers/scale';
import { inAddressOfDevice, oneOf, twoWholeNumbers } from './in-address';
import { shownMoment } from './moment';
import { current } from './recordings';

/**
 * The moments at which the chosen interval begins and ends; null: none. It contains the events of the half-open range `from..to`, because
 * moment `n` is before event `n`.
 */
export const interval = inAddressOfDevice('span', twoWholeNumbers, null);

/** Whether it is compared with the same part of the previous step; null: it is not. */
export const spanCompared = inAddressOfDevice('spanwith', oneOf(['before']), null);

/** Chooses the interval between two moments, clamped to the recording. */
export function chooseInterval([from, to]: Range): void {
  const last = current.value?.events ?? 0;
  const [begin, end] = [from, to].map((at) => Math.min(Math.max(Math.round(at), 0), last)) as Range;
  interval.value = begin < end ? [begin, end] : null;
}

/** Begins the interval at the shown moment; if its end was earlier, it then ends with the recording. */
export function beginSpan(): void {
  const at = shownMoment.value;
  const end = interval.value?.[1] ?? Infinity;
  chooseInterval([at, end > at ? end : Infinity]);
}

/** Ends the interval at the shown moment; if its start was later, it then begins with the recording. */
export function endSpan(): void {
  const at = shownMoment.value;
  const begin = interval.value?.[0] ?? 0;
  chooseInterval([begin < at ? begin : 0, at]);
}
