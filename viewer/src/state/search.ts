import { anyText, kept } from './kept';

/** The text in the search box. */
export const search = kept('search', anyText, '');
