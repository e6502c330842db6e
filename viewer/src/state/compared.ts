// The other recording in the comparison of two.

import { kept, keptOfDevice, wholeNumber, twoWholeNumbers } from './kept';

/** The file and the device that the shown one is compared with, as positions; null: the first other one. */
export const other = kept('other', twoWholeNumbers, null);
/** The moment of that recording; null: its peak of allocated bytes. */
export const otherMoment = keptOfDevice('othermoment', wholeNumber, null);
