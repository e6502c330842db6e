// The colours that items have now, after the choice of what colours stand for and the search.

import { computed } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { FADED, mix, parse as parseColor } from '../style/colors';
import { isIn, shownFound } from '../search/found';
import { dark, inks } from '../style/theme';
import type { Items, Picture } from '../source/source';
import { chosenColor, colorBy, type ColorBy } from '../state/grouping';
import { groupsBy } from '../state/groups';
import { scope } from '../state/place';
import { current } from '../state/recordings';
import { stacked } from '../state/window';
import { colorKeysBy, type ColorKeys } from './color-keys';
import { tellApart, type Runs } from './neighbours';
import type { ItemPaints } from './paint';
import { EDGE, paintsOf } from './paints';

const NOTHING = { tags: [], purposes: null, steps: null };
const keysBy = (by: ColorBy) => colorKeysBy(by, current.value ?? NOTHING, scope.value, groupsBy(by), dark.value);

/** The keys by which allocations are coloured. */
export const colorKeys = computed(() => keysBy(colorBy.value));

/** What reserved ranges are coloured by: they have no category. */
const rangesBy = computed(() => chosenColor.value ?? 'stack');
export const rangeKeys = computed(() => keysBy(rangesBy.value));

/** What the items of the timeline are coloured by as soon as that is known of them. */
export const itemsBy = computed(() => (stacked.value === 'reserved' ? rangesBy.value : colorBy.value));
/** The keys by which the items of the timeline are coloured. */
export const keysNow = computed(() => keysBy(itemsBy.value));

/** Whether a picture is from before it was known what memory is for: it keeps its colours until the next, which is on its way. */
const isFromBefore = (items: Items) =>
  itemsBy.value === 'category' && chosenColor.value === null && items.purpose.length < items.id.length;

/** What the items of a picture are coloured by, and the keys of that. */
export const coloredBy = (items: Items): ColorBy => (isFromBefore(items) ? rangesBy : itemsBy).value;
export const keysOf = (items: Items): ColorKeys => (isFromBefore(items) ? rangeKeys : keysNow).value;

/** How much darker the upper edge of an item is that the search does not match. */
const FADED_EDGE = 0.05;
/** How much lighter every other allocation is, so that neighbours of one colour can be told where they are too low for an edge. */
const EVERY_OTHER = 0.1;

/** The colour of each item of a picture: that of its group, every other a little lighter, and those that touch told apart. */
export function pictureColors(picture: Runs & Pick<Picture, 'items'>, keys: ColorKeys, by: ColorBy): Uint32Array {
  const { items } = picture;
  const hues = items.id.map((_, i) => keys.hueOf(items, i));
  const color = hues.map((hue, i) => {
    const own = keys.color(hue);
    return numberAt(items.id, i) & 1 ? mix(own, 0xffffff, EVERY_OTHER) : own;
  });
  // Categories have colours that differ, and those of sizes stand in an order.
  if (by !== 'category' && by !== 'size') tellApart(picture, hues, color);
  return color;
}

interface ItemColors {
  color: Uint32Array;
  /** 1 for items that the search does not match. */
  faded: Uint8Array;
}

export function itemColors(picture: Picture): ItemColors {
  const { items } = picture;
  const keys = keysOf(items);
  const ground = parseColor(inks.value.ground);
  const all = shownFound.value;
  const found = all && (stacked.value === 'reserved' ? all.ranges : all.allocations);
  const faded = new Uint8Array(items.id.length);
  const color = pictureColors(picture, keys, coloredBy(items));
  if (found) {
    items.id.forEach((id, i) => {
      if (isIn(found, id)) return;
      faded[i] = 1;
      color[i] = mix(numberAt(color, i), ground, FADED);
    });
  }
  return { color, faded };
}

export function currentPaints(picture: Picture): ItemPaints {
  const { color, faded } = itemColors(picture);
  return paintsOf(picture.items, color, dark.value, (i) => (faded[i] ? FADED_EDGE : EDGE));
}
