// The moments that the views show.

import { computed } from '@preact/signals';
import { rested } from './asked';
import { inAddressOfDevice, wholeNumber } from './in-address';
import { current } from './recordings';

/** The chosen moment; null: the peak of allocated bytes. */
export const moment = inAddressOfDevice('moment', wholeNumber, null);
/** A second moment to compare with; null: none. */
export const against = inAddressOfDevice('against', wholeNumber, null);

export const shownMoment = computed(() => moment.value ?? current.value?.peaks.allocated.moment ?? 0);
/** The shown moment after a short pause: for content that need not follow each step. */
export const restedMoment = rested(shownMoment, 80);
