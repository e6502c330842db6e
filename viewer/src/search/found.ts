// What the search box looks for, and what was found.

import { computed } from '@preact/signals';
import { asked } from '../shell/asked';
import { current, device, file, names, search, selected, source } from '../state';
import { reveal } from '../timeline/moves';
import { compile, parse } from './query';

export const parsed = computed(() => parse(search.value));

/** Null: nothing is looked for, or the names are not there yet. */
export const query = computed(() => {
  const known = names.value.get(file.value);
  return known && current.value ? compile(parsed.value, known, current.value.tags) : null;
});

export const found = asked(() => (query.value ? source.search(file.value, device.value, query.value) : null));

/** Positions in `found`, largest first. */
const order = computed(() => {
  const all = found.value;
  return all ? Uint32Array.from(all.id, (_, i) => i).sort((a, b) => all.size[b] - all.size[a]) : null;
});

/** Which of the matches is selected, in that order; null: none. */
export const position = computed(() => {
  const at = order.value?.findIndex((i) => found.value!.id[i] === selected.value) ?? -1;
  return at < 0 ? null : at;
});

/** Selects the next match (or the one before) and brings it into view. */
export function cycle(step: 1 | -1): void {
  const all = found.value;
  if (!all || !order.value || order.value.length === 0) return;
  const length = order.value.length;
  const at = position.value === null ? (step > 0 ? 0 : length - 1) : (position.value + step + length) % length;
  const match = order.value[at];
  selected.value = all.id[match];
  reveal(all.from[match], all.to[match]);
}

