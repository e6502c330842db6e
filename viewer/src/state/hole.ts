import { keptOfDevice, wholeNumber } from './kept';

/** The address of the free block chosen in the State view; null: none. */
export const hole = keptOfDevice('hole', wholeNumber, null);
