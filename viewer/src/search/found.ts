// The query of the search box, and the allocations that it finds.

import { computed, effect, untracked } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { CATEGORIES, type Category, type Query } from '../source/source';
import { asked } from '../state/asked';
import { zoomToSelected } from '../state/moves';
import { device, file } from '../state/place';
import { source } from '../state/recordings';
import { search } from '../state/search';
import { selected } from '../state/selection';
import { parse } from './language';

const parsed = computed(() => parse(search.value));

/** The query for the source; null where nothing is searched for. */
export const query = computed(() => parsed.value.query);

let queries = 0;
/** Counts the queries: names the present one in the keys of answers. */
export const queryNumber = computed(() => (query.value === null ? 0 : (queries += 1)));

const answered = asked((unwanted) => {
  const asking = query.value;
  return asking && source.search(file.value, device.value, asking, unwanted).then((all) => ({ query: asking, all }));
});

/** What the query finds, the numbers of the largest first; null until its answer is there. */
export const found = computed(() => (answered.value?.query === query.value ? (answered.value?.all ?? null) : null));

/** What pictures fade but; until the answer to a query comes that to the one before. Null where nothing is searched. */
export const shownFound = computed(() => {
  const all = query.value && answered.value?.all;
  return all && !all.is_empty ? all : null;
});

/** For each word that was not understood the reason: by its form, or by what the answer says of its text. */
export const unclear = computed(() => [...new Set([...parsed.value.unclear, ...(found.value?.unclear ?? [])])]);

/** Whether the search may find something of a category, as far as its words about categories tell. */
export const findsCategory = (category: Category): boolean => shownFound.value?.categories[CATEGORIES.indexOf(category)] !== 0;

/** Whether a set that is sent as bits has a number. */
export const isIn = (bits: Uint8Array, number: number): boolean => (((bits[number >>> 3] ?? 0) >>> (number & 7)) & 1) === 1;

/** The position of the selected allocation among the matches; null where it is none of them. */
export const matchPosition = computed(() => {
  const at = selected.value === null ? -1 : (found.value?.id.indexOf(selected.value) ?? -1);
  return at < 0 ? null : at;
});

/** A step to another match that waits for the answer to its query. */
let waiting: { query: Query; step: 1 | -1 } | null = null;

/** Selects the next match, or the one before, and brings it into view; at once, or when the answer is there. */
export function stepToMatch(step: 1 | -1): void {
  waiting = query.value && { query: query.value, step };
  stepWhenKnown();
}

function stepWhenKnown(): void {
  const all = found.value;
  if (!all || !waiting) return;
  const { query: asked, step } = waiting;
  waiting = null;
  const length = all.id.length;
  if (asked !== query.value || length === 0) return;
  const at = matchPosition.value === null ? (step > 0 ? 0 : length - 1) : (matchPosition.value + step + length) % length;
  selected.value = numberAt(all.id, at);
  zoomToSelected();
}

effect(() => {
  if (found.value) untracked(stepWhenKnown);
});
