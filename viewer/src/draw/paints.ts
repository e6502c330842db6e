// How the items of a picture are painted, each in its colour.

import type { Items } from '../source/source';
import { abgr, mix, type Rgb } from '../style/colors';
import type { Paints } from './paint';

/** What edges have more of than what they are the edge of. */
export const rimColor = (isDark: boolean): Rgb => (isDark ? 0x000000 : 0x10131a);

/** How much darker the upper edge of an item is. */
export const EDGE = 0.22;

/** What was live before recording began is hatched. */
export function paintsOf(items: Items, color: Uint32Array, isDark: boolean, edge = (_item: number) => EDGE): Paints {
  const rim = rimColor(isDark);
  return {
    fill: color.map((c) => abgr(c)),
    edge: color.map((c, i) => abgr(mix(c, rim, edge(i)))),
    hatched: Uint8Array.from(items.from, (from) => (from === 0 ? 1 : 0)),
  };
}
