import { anyText, kept } from './kept';

/** What stands in the search box. */
export const search = kept('search', anyText, '');
