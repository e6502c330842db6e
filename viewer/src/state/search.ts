import { anyText, inAddress, unless } from './in-address';
import { isText, inBrowser } from './in-browser';

/** The text in the search box. */
export const search = inAddress('search', anyText, '');

/** Whether pictures, tables and sums have only the matches of a search, or all allocations with the matches marked. */
export const onlyMatches = inAddress('matches', unless('marked'), true);

/** The most saved searches; saving another removes the oldest. */
const MOST_SAVED = 30;

/** The searches that the user saved, the newest first. */
export const savedSearches = inBrowser<readonly string[]>(
  'searches',
  (value) => (Array.isArray(value) ? value.filter(isText).slice(0, MOST_SAVED) : undefined),
  [],
);

export function saveSearch(text: string): void {
  savedSearches.value = [text, ...savedSearches.value.filter((one) => one !== text)].slice(0, MOST_SAVED);
}

export function forgetSearch(text: string): void {
  savedSearches.value = savedSearches.value.filter((one) => one !== text);
}
