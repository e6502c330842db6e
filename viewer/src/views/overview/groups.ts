// Reduces long lists to few groups.

import { entryAt } from '../../numbers/at';

/** Cuts positions 0 to `values.length - 1` into at most `most` similar runs, and returns the position of each run's highest value. */
export function highestOfGroups(values: readonly number[], most: number): number[] {
  const groups = Math.min(values.length, most);
  return Array.from({ length: groups }, (_, group) => {
    const end = Math.floor(((group + 1) * values.length) / groups);
    let highest = Math.floor((group * values.length) / groups);
    for (let i = highest + 1; i < end; i += 1) if (entryAt(values, i) > entryAt(values, highest)) highest = i;
    return highest;
  });
}
