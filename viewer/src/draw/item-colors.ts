// The current colors of items, from the color choice and the search.

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

/** The color keys of allocations. */
export const colorKeys = computed(() => keysBy(colorBy.value));

/** The color choice for reserved ranges, which have no category. */
const rangesBy = computed(() => chosenColor.value ?? 'stack');
export const rangeKeys = computed(() => keysBy(rangesBy.value));

/** The color choice for the timeline's items, once their groups are known. */
export const itemsBy = computed(() => (stacked.value === 'reserved' ? rangesBy.value : colorBy.value));
/** The color keys of the timeline's items. */
export const keysNow = computed(() => keysBy(itemsBy.value));

/** Whether a picture was made before categories were known. It keeps its colors until the next picture arrives. */
const isFromBefore = (items: Items) =>
  itemsBy.value === 'category' && chosenColor.value === null && items.purpose.length < items.id.length;

/** The color choice of a picture, and its keys. */
export const coloredBy = (items: Items): ColorBy => (isFromBefore(items) ? rangesBy : itemsBy).value;
export const keysOf = (items: Items): ColorKeys => (isFromBefore(items) ? rangeKeys : keysNow).value;

/** How much darker the upper edge is for items that the search does not match. */
const FADED_EDGE = 0.05;
/** How much lighter every second allocation is, so that low neighbors of one color stay distinguishable. */
const EVERY_OTHER = 0.1;

/** Returns each item's color: its group's, every second one lighter, and touching groups made distinguishable. */
export function pictureColors(picture: Runs & Pick<Picture, 'items'>, keys: ColorKeys, by: ColorBy): Uint32Array {
  const { items } = picture;
  const hues = items.id.map((_, i) => keys.hueOf(items, i));
  const color = hues.map((hue, i) => {
    const own = keys.color(hue);
    return numberAt(items.id, i) & 1 ? mix(own, 0xffffff, EVERY_OTHER) : own;
  });
  // Category colors are already distinct, and size colors form a scale.
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
  // A picture of the matches alone has nothing to fade.
  const found = all && picture.window.only === null && (stacked.value === 'reserved' ? all.ranges : all.allocations);
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
