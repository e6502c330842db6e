// Fill, edge and hatching of a picture's items, from their colors.

import type { Items } from '../source/source';
import { abgr, mix, type Rgb } from '../style/colors';
import type { ItemPaints } from './paint';

/** The color that is mixed into the edges of items. */
export const rimColor = (isDark: boolean): Rgb => (isDark ? 0x000000 : 0x10131a);

/** How much darker an item's upper edge is. */
export const EDGE = 0.22;

/** Returns the paints of items with these colors. Memory live before recording began is hatched. */
export function paintsOf(items: Items, color: Uint32Array, isDark: boolean, edge = (_item: number) => EDGE): ItemPaints {
  const rim = rimColor(isDark);
  const hatched = new Uint8Array(items.from.length);
  items.from.forEach((from, i) => (hatched[i] = from === 0 ? 1 : 0));
  return {
    fill: color.map((c) => abgr(c)),
    edge: color.map((c, i) => abgr(mix(c, rim, edge(i)))),
    hatched,
  };
}
