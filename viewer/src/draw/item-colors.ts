// The colours of items as they are chosen now: by what they are coloured, and whether a search matches them.

import { computed } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { FADED, mix, parse as parseColor } from '../style/colors';
import { matching } from '../search/query';
import { found, query } from '../search/found';
import { dark, inks } from '../style/theme';
import type { Items } from '../source/source';
import { colorBy } from '../state/grouping';
import { current, currentNames } from '../state/recordings';
import { keying } from './color-keys';
import type { Paints } from './paint';
import { EDGE, paintsOf as painted } from './paints';

/** What is coloured by; ranges of the device belong to no category. */
export const keys = computed(() => keying(colorBy.value, currentNames.value, current.value?.tags ?? [], dark.value));

/** How much darker the upper edge of what does not match is. */
const FADED_EDGE = 0.05;
/** How much lighter every other allocation is: neighbours of one colour stay apart where they are too low for an edge. */
const EVERY_OTHER = 0.1;

interface ItemColors {
  color: Uint32Array;
  /** 1: a search does not match it. */
  faded: Uint8Array;
}

export function itemColors(items: Items): ItemColors {
  const keying = keys.value;
  const ground = parseColor(inks.value.ground);
  const matches = query.value && matching(query.value, items, found.value);
  const faded = new Uint8Array(items.id.length);
  if (matches) matches.forEach((match, i) => (faded[i] = 1 - match));
  const color = Uint32Array.from(items.id, (_, i) => {
    const key = keying.color(keying.keyOf(items, i));
    const own = numberAt(items.id, i) & 1 ? mix(key, 0xffffff, EVERY_OTHER) : key;
    return faded[i] ? mix(own, ground, FADED) : own;
  });
  return { color, faded };
}

export function paintsOf(items: Items): Paints {
  const { color, faded } = itemColors(items);
  return painted(items, color, dark.value, (i) => (faded[i] ? FADED_EDGE : EDGE));
}
