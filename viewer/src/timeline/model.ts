// What the timeline knows beside the shared state: answers that it needs, and how items are painted.

import { computed, signal } from '@preact/signals';
import { abgr, mix, parse as parseColor } from '../colors';
import { matching } from '../search/query';
import { query } from '../search/found';
import { asked } from '../shell/asked';
import { dark, inks } from '../shell/theme';
import type { Items, Picture, Regions, Window } from '../source/source';
import { axis, colorBy, current, device, file, names, selected, shownMoment, shownRange, source, span, stacked, trouble, view } from '../state';
import { keying } from './keys';
import { overlay } from './overlay';
import type { Paints } from './paint';
import { reason } from '../text/reason';

/** A picture as it was drawn, and of which recording it is. */
export interface Shown {
  file: number;
  device: number;
  picture: Picture;
}

/** The last picture that was drawn for exactly the window that was wanted. */
export const shown = signal<Shown | null>(null);
/** The same when the hand rests: for what is read, not steered by. */
export const settled = signal<Shown | null>(null);
/** Whether the plot leaves room for the reserved line. */
export const withReserved = signal(true);
/** Whether the timeline is the view itself, or a strip above another. */
export const tall = computed(() => view.value === 'timeline');

/** Null until they are known: the plot leaves room for them. */
export const regions = asked(() => {
  if (!current.value) return null;
  return source.regions(file.value, device.value).catch((e: unknown) => {
    trouble.value = reason(e);
    return NO_REGIONS;
  });
});

const NO_REGIONS: Regions = {
  names: [],
  name: new Uint32Array(),
  depth: new Uint8Array(),
  from: new Uint32Array(),
  to: new Uint32Array(),
  from_us: new Float64Array(),
  to_us: new Float64Array(),
};

/** Everything about the selected allocation. */
export const selection = asked(() => {
  if (!current.value || selected.value === null) return null;
  return source.allocation(file.value, device.value, selected.value);
});

/** Exact bytes at the chosen moment: a picture of it, one pixel large. */
export const momentBytes = asked(async () => {
  if (!current.value) return null;
  const at = shownMoment.value;
  const { highest } = await source.picture(file.value, device.value, {
    stacked: 'allocated', axis: 'events', from: at, to: at + 1, width: 1, height: 1, low: 0, high: null, fitReserved: false,
  });
  return { moment: at, allocated: highest.allocated[0], reserved: highest.reserved[0] };
});

/** What is coloured by; ranges of the device belong to no category. */
export const keys = computed(() => keying(colorBy.value, names.value.get(file.value), current.value?.tags ?? [], dark.value));

/** How much of the ground is in what a search does not match. */
const FADED = 0.86;
/** How much darker the upper edge of an item is. */
const EDGE = 0.22;
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
  const matches = query.value && matching(query.value, items);
  const faded = new Uint8Array(items.id.length);
  if (matches) matches.forEach((match, i) => (faded[i] = 1 - match));
  const color = Uint32Array.from(items.id, (_, i) => {
    const key = keying.color(keying.keyOf(items, i));
    const own = items.id[i] & 1 ? mix(key, 0xffffff, EVERY_OTHER) : key;
    return faded[i] ? mix(own, ground, FADED) : own;
  });
  return { color, faded };
}

export function paintsOf(items: Items): Paints {
  const { color, faded } = itemColors(items);
  const rim = dark.value ? 0x000000 : 0x10131a;
  return {
    fill: color.map((c) => abgr(c)),
    edge: color.map((c, i) => abgr(mix(c, rim, faded[i] ? FADED_EDGE : EDGE))),
    hatched: Uint8Array.from(items.from, (from) => (from === 0 ? 1 : 0)),
  };
}

/** Where a picture would fit itself to less than the overlay needs: the room that it needs. */
const overlayRoom = computed(() => {
  if (!overlay.value || !withReserved.value) return null;
  const peak = overlay.value.points.reduce((highest, [, bytes]) => Math.max(highest, bytes), 0);
  return peak > (current.value?.peaks.reserved.bytes ?? 0) ? peak * 1.04 : null;
});

/** The window that the shared state asks for, at a size in device pixels. */
export const windowOf = (width: number, height: number): Window => ({
  stacked: stacked.value,
  axis: axis.value,
  from: shownRange.value[0],
  to: shownRange.value[1],
  width,
  height,
  low: span.value?.[0] ?? 0,
  high: span.value?.[1] ?? overlayRoom.value,
  fitReserved: withReserved.value,
});
