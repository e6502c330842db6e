// The colours that items have now, after the choice of what colours stand for and the search.

import { computed } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { FADED, mix, parse as parseColor } from '../style/colors';
import { isIn, shownFound } from '../search/found';
import { dark, inks } from '../style/theme';
import type { Items } from '../source/source';
import { chosenColor, colorBy, type ColorBy } from '../state/grouping';
import { groupsBy } from '../state/groups';
import { scope } from '../state/place';
import { current } from '../state/recordings';
import { stacked } from '../state/window';
import { colorKeysBy, type ColorKeys } from './color-keys';
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
const itemKeys = computed(() => keysBy(itemsBy.value));

/** Whether a picture is from before it was known what memory is for: it keeps its colours until the next, which is on its way. */
const isFromBefore = (items: Items) =>
  itemsBy.value === 'category' && chosenColor.value === null && items.purpose.length < items.id.length;

/** What the items of a picture are coloured by, and the keys of that. */
export const coloredBy = (items: Items): ColorBy => (isFromBefore(items) ? rangesBy : itemsBy).value;
export const keysOf = (items: Items): ColorKeys => (isFromBefore(items) ? rangeKeys : itemKeys).value;

/** How much darker the upper edge of an item is that the search does not match. */
const FADED_EDGE = 0.05;
/** How much lighter every other allocation is, so that neighbours of one colour can be told where they are too low for an edge. */
const EVERY_OTHER = 0.1;

interface ItemColors {
  color: Uint32Array;
  /** 1 for items that the search does not match. */
  faded: Uint8Array;
}

export function itemColors(items: Items): ItemColors {
  const keys = keysOf(items);
  const ground = parseColor(inks.value.ground);
  const all = shownFound.value;
  const found = all && (stacked.value === 'reserved' ? all.ranges : all.allocations);
  const faded = Uint8Array.from(items.id, (id) => (found && !isIn(found, id) ? 1 : 0));
  const color = Uint32Array.from(items.id, (_, i) => {
    const key = keys.color(keys.hueOf(items, i));
    const own = numberAt(items.id, i) & 1 ? mix(key, 0xffffff, EVERY_OTHER) : key;
    return faded[i] ? mix(own, ground, FADED) : own;
  });
  return { color, faded };
}

export function currentPaints(items: Items): ItemPaints {
  const { color, faded } = itemColors(items);
  return paintsOf(items, color, dark.value, (i) => (faded[i] ? FADED_EDGE : EDGE));
}
