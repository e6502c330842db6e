// The query of the search box, and its matches.

import { computed, effect, untracked } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { CATEGORIES, type Category, type Query } from '../source/source';
import { asked } from '../state/asked';
import { zoomToAllocation } from '../state/moves';
import { device, file } from '../state/place';
import { source } from '../state/recordings';
import { onlyMatches, search } from '../state/search';
import { selected } from '../state/selection';
import { keepingTransforms, transforms } from '../state/transforms';
import { parse, type Unclear } from './language';

const parsed = computed(() => parse(search.value));

/** The transforms of the call tree that keep only some allocations. */
const keeping = computed(() => keepingTransforms(transforms.value));

/** The query for the source, of the search box and of the call tree's transforms; null without either. */
export const query = computed((): Query | null => {
  const typed = parsed.value.query;
  if (keeping.value.length === 0) return typed;
  const kept: Query = { is: 'transforms', transforms: keeping.value };
  return typed ? { is: 'all', of: [typed, kept] } : kept;
});

/** A text that stands for the query. */
export const queryText = computed(() => `${search.value} ${JSON.stringify(keeping.value)}`);

/** The query whose matches alone are shown; null to show everything. */
export const onlyQuery = computed(() => (onlyMatches.value ? query.value : null));

let queries = 0;
/** Numbers the queries; the current number is part of answer keys. */
export const queryNumber = computed(() => (query.value === null ? 0 : (queries += 1)));

const answered = asked((unwanted) => {
  const asking = query.value;
  return (
    asking &&
    source.ask(file.value, device.value, { question: 'search', search: asking }, unwanted).then((all) => ({ query: asking, all }))
  );
});

/** The query's matches, the largest allocations first; null until the answer arrives. */
export const found = computed(() => (answered.value?.query === query.value ? (answered.value?.all ?? null) : null));

/** The matches that pictures do not fade. Until a query is answered, those of the previous one. Null without a search. */
export const shownFound = computed(() => {
  const all = query.value && answered.value?.all;
  return all && !all.is_empty ? all : null;
});

/** The words that were not understood: those with a wrong form, and those that the answer complains about. */
export const unclear = computed((): Unclear[] => [...parsed.value.unclear, ...(found.value?.unclear ?? []).map(placed)]);

/** Returns the place of an answer's complaint, which begins with the word that it is about. */
function placed(why: string): Unclear {
  const word = /^(\/.*\/|[^:]+): /.exec(why)?.[1] ?? '';
  const from = search.value.toLowerCase().indexOf(word);
  return from < 0 || word === '' ? { why, from: 0, to: search.value.length } : { why, from, to: from + word.length };
}

/** Zooms to the selected allocation: its lifetime, and the bytes around it. */
export function zoomToSelected(): void {
  if (selected.value !== null) zoomToAllocation(selected.value, onlyQuery.value);
}

/** Whether the search may match something of a category, judging by its category terms. */
export const findsCategory = (category: Category): boolean => shownFound.value?.categories[CATEGORIES.indexOf(category)] !== 0;

/** Whether a bit set contains a number. */
export const isIn = (bits: Uint8Array, number: number): boolean => (((bits[number >>> 3] ?? 0) >>> (number & 7)) & 1) === 1;

/** The position of the selected allocation among the matches; null if it is not a match. */
export const matchPosition = computed(() => {
  const at = selected.value === null ? -1 : (found.value?.id.indexOf(selected.value) ?? -1);
  return at < 0 ? null : at;
});

/** A pending step to another match, which waits for the query's answer. */
let waiting: { query: Query; step: 1 | -1 } | null = null;

/** Selects the next or previous match and brings it into view, as soon as the answer arrives. */
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
