// The other recording in the comparison of two.

import { kept, keptOfDevice, position, positions } from './kept';

/** Its file and device; null: the first there is. */
export const other = kept('other', positions, null);
/** Its moment; null: its peak of allocated bytes. */
export const otherMoment = keptOfDevice('othermoment', position, null);
