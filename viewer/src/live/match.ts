// Which part of what is live at a moment the search finds.

import { numberAt } from '../numbers/at';
import type { Live, Query } from '../source/source';

/** 1 for each entry of `live` that the query finds. Null where it names only addresses or sizes, which entries do not have. */
export function matchingEntries(query: Query | null, live: Live): Uint8Array | null {
  if (!query || (query.stacks === null && query.tags === null && query.purposes === null)) return null;
  const stacks = query.stacks && new Set(query.stacks);
  const tags = query.tags && new Set(query.tags);
  const purposes = query.purposes && new Set(query.purposes);
  return live.stack.reduce((found, stack, i) => {
    const matches =
      (stacks === null || stacks.has(stack)) &&
      (tags === null || tags.has(numberAt(live.tags, i))) &&
      (purposes === null || purposes.has(numberAt(live.purpose, i)));
    if (matches) found[i] = 1;
    return found;
  }, new Uint8Array(live.stack.length));
}
