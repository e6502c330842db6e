import { keptOfDevice, wholeNumber } from './kept';

/** The number of the selected allocation; null: none. */
export const selected = keptOfDevice('selected', wholeNumber, null);
