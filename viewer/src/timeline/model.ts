// What the timeline knows beside the shared state: answers that it needs, and how items are painted.

import { computed, signal } from '@preact/signals';
import { FADED, mix, parse as parseColor } from '../colors';
import { EDGE, paintsOf as painted } from '../parts/paints';
import { matching } from '../search/query';
import { found, query } from '../search/found';
import { asked, rested } from '../shell/asked';
import { dark, inks } from '../shell/theme';
import type { Items, Picture, Regions, Window } from '../source/source';
import {
  axis, colorBy, current, currentNames, device, file, ofCurrent, selected, shownMoment, shownRange, source, span, stacked,
  trouble, view, whole, withReserved,
} from '../state';
import { keying } from './keys';
import { momentAt, overlayValues } from './hit';
import { overlay } from './overlay';
import type { Paints } from './paint';
import { reason } from '../text/reason';

/** A picture as it was drawn, and of which recording it is. */
export interface Shown {
  scope: string;
  picture: Picture;
}

/** What was drawn last for exactly the window that was wanted, and the same when the hand rests. */
export const drawn = { last: signal<Shown | null>(null), rested: signal<Shown | null>(null) };
/** The last picture that was drawn of what is shown. */
export const shown = ofCurrent(drawn.last);
/** The same when the hand rests: for what is read, not steered by. */
export const settled = ofCurrent(drawn.rested);
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

const restedMoment = rested(shownMoment, 80);

/** Exact bytes at the chosen moment: a picture of it, one pixel large. A label that can wait for what the views show. */
export const momentBytes = asked(async () => {
  const shownDevice = current.value;
  if (!shownDevice) return null;
  const at = Math.min(restedMoment.value, shownDevice.events);
  const { highest } = await source.picture(file.value, device.value, {
    stacked: 'allocated', axis: 'events', from: at, to: at + 1, width: 1, height: 1, low: 0, high: null, fitReserved: false,
  });
  return { moment: at, allocated: highest.allocated[0], reserved: highest.reserved[0] };
});

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
    const own = items.id[i] & 1 ? mix(key, 0xffffff, EVERY_OTHER) : key;
    return faded[i] ? mix(own, ground, FADED) : own;
  });
  return { color, faded };
}

export function paintsOf(items: Items): Paints {
  const { color, faded } = itemColors(items);
  return painted(items, color, dark.value, (i) => (faded[i] ? FADED_EDGE : EDGE));
}

/** Where a picture would fit itself to less than the overlay needs: the room that it needs. */
const overlayRoom = computed(() => {
  if (!overlay.value || !withReserved.value) return null;
  const peak = overlay.value.points.reduce((highest, [, bytes]) => Math.max(highest, bytes), 0);
  return peak > (current.value?.peaks.reserved.bytes ?? 0) ? peak * 1.04 : null;
});

/** The overlay's value at each pixel; null where there is none. */
export function overlayLine(picture: Picture): Float64Array | null {
  if (!overlay.value) return null;
  const { axis, from, to, width } = picture.window;
  // On the axis of time a picture does not tell what moments lie beyond those that it shows.
  const [first, last] = axis === 'events'
    ? [Math.floor(from), Math.ceil(to) - 1]
    : [from <= whole.value[0] ? 0 : momentAt(picture, 0), to >= whole.value[1] ? Infinity : momentAt(picture, width - 1)];
  return overlayValues(picture, overlay.value.points, first, last);
}

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
