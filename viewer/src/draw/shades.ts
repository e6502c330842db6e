// Which of the colours of the palette the largest groups have: one that their hue chooses, and of two that choose the same, the smaller
// takes another.

import { entryAt } from '../numbers/at';
import type { Groups } from '../source/source';
import { SHADES } from '../style/colors';

/** The shades of the largest groups by their hues. Those of one recording differ from each other. */
export function shadesOf(all: Iterable<Pick<Groups, 'hue'>>): ReadonlyMap<number, number> {
  const lists = [...all].map(({ hue }) => [...new Set(hue.filter((one) => one !== 0))].slice(0, SHADES));
  const shades = new Map<number, number>();
  // In turns, so that the largest of each recording keep what their hues choose.
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
