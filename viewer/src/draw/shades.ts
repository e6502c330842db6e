// Assigns palette colors to the largest groups: the one that the hue selects, or, if a larger group already has it, another.

import { entryAt } from '../numbers/at';
import type { Groups } from '../source/source';
import { SHADES } from '../style/colors';

/** Returns the shades of the largest groups by hue. Shades within one recording are distinct. */
export function shadesOf(all: Iterable<Pick<Groups, 'hue'>>): ReadonlyMap<number, number> {
  const lists = [...all].map(({ hue }) => [...new Set(hue.filter((one) => one !== 0))].slice(0, SHADES));
  const shades = new Map<number, number>();
  // Alternate between recordings, so that the largest groups of each keep the shades that their hues select.
  for (let rank = 0; rank < SHADES; rank += 1) {
    for (const list of lists) {
      const hue = list[rank];
      if (hue === undefined || shades.has(hue)) continue;
      const beside = new Set(lists.filter((one) => one.includes(hue)).flatMap((one) => one.map((other) => shades.get(other))));
      const choices = Array.from({ length: SHADES }, (_, i) => (hue + i) % SHADES);
      shades.set(hue, choices.find((shade) => !beside.has(shade)) ?? entryAt(choices, 0));
    }
  }
  return shades;
}
