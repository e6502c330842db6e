// What the search box looks for, and what was found.

import { computed, effect, untracked } from '@preact/signals';
import { numberAt } from '../numbers/at';
import type { Query } from '../source/source';
import { asked } from '../state/asked';
import { reveal } from '../state/moves';
import { device, file } from '../state/place';
import { current, currentNames, source } from '../state/recordings';
import { search } from '../state/search';
import { selected } from '../state/selection';
import { compile, parse } from './query';

export const parsed = computed(() => parse(search.value));

/** Null: nothing is looked for, or the names are not there yet. */
export const query = computed(() => {
  const known = currentNames.value;
  return known && current.value ? compile(parsed.value, known, current.value.tags) : null;
});

const answered = asked((unwanted) => {
  const asking = query.value;
  return asking && source.search(file.value, device.value, asking, unwanted).then((all) => ({ query: asking, all }));
});

/** What the query of now finds, largest first; null: not known yet. */
export const found = computed(() => (answered.value?.query === query.value ? (answered.value?.all ?? null) : null));

/** Which of the matches is selected; null: none. */
export const position = computed(() => {
  const at = selected.value === null ? -1 : (found.value?.id.indexOf(selected.value) ?? -1);
  return at < 0 ? null : at;
});

/** A step that waits for the answer to its query. */
let waiting: { query: Query; step: 1 | -1 } | null = null;

/** Selects the next match (or the one before) and brings it into view, as soon as it is known. */
export function cycle(step: 1 | -1): void {
  waiting = query.value && { query: query.value, step };
  go();
}

function go(): void {
  const all = found.value;
  if (!all || !waiting) return;
  const { query: asked, step } = waiting;
  waiting = null;
  const length = all.id.length;
  if (asked !== query.value || length === 0) return;
  const at = position.value === null ? (step > 0 ? 0 : length - 1) : (position.value + step + length) % length;
  selected.value = numberAt(all.id, at);
  reveal(numberAt(all.from, at), numberAt(all.to, at));
}

effect(() => {
  if (found.value) untracked(go);
});
