import { inAddressOfDevice, wholeNumber } from './in-address';

/** The number of the selected allocation; null: none. */
export const selected = inAddressOfDevice('selected', wholeNumber, null);
