import { inAddressOfDevice, wholeNumber } from './in-address';

/** The address of the free block chosen in the State view; null: none. */
export const hole = inAddressOfDevice('hole', wholeNumber, null);
