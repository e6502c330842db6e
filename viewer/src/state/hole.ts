import { keptOfDevice, wholeNumber } from './kept';

/** The address of the free block that the view State tells of; null: none is chosen. */
export const hole = keptOfDevice('hole', wholeNumber, null);
