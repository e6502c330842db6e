// What the timeline knows beside the shared state: answers that it needs, and how items are painted.

import { computed, signal } from '@preact/signals';
import { abgr, mix, parse as parseColor } from '../colors';
import { matching } from '../search/query';
import { query } from '../search/found';
import { asked } from '../shell/asked';
import { dark, inks } from '../shell/theme';
import type { Items, Picture } from '../source/source';
import { axis, colorBy, current, device, file, names, selected, shownMoment, shownRange, source, span, stacked, view } from '../state';
import { keying } from './keys';
import type { Paints } from './paint';

/** A picture as it was drawn, and of which recording it is. */
export interface Shown {
  file: number;
  device: number;
  picture: Picture;
}

/** The last picture that was drawn for exactly the window that was wanted. */
export const shown = signal<Shown | null>(null);
/** Whether the plot leaves room for the reserved line. */
export const withReserved = signal(true);
/** Whether the timeline is the view itself, or a strip above another. */
export const tall = computed(() => view.value === 'timeline');

export const regions = asked(() => (current.value ? source.regions(file.value, device.value) : null));

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
const EDGE = 0.22;

/** How items look now. */
export function paintsOf(items: Items): Paints {
  const keying = keys.value;
  const ground = parseColor(inks.value.ground);
  const rim = dark.value ? 0x000000 : 0x10131a;
  const matches = query.value && matching(query.value, items);
  const count = items.id.length;
  const paints: Paints = { fill: new Uint32Array(count), edge: new Uint32Array(count), hatched: new Uint8Array(count) };
  for (let i = 0; i < count; i += 1) {
    const own = keying.color(keying.keyOf(items, i));
    const fill = matches && !matches[i] ? mix(own, ground, FADED) : own;
    paints.fill[i] = abgr(fill);
    paints.edge[i] = abgr(mix(fill, rim, EDGE));
    paints.hatched[i] = items.from[i] === 0 ? 1 : 0;
  }
  return paints;
}

/** The window that the shared state asks for, at a size in device pixels. */
export const windowOf = (width: number, height: number) => ({
  stacked: stacked.value,
  axis: axis.value,
  from: shownRange.value[0],
  to: shownRange.value[1],
  width,
  height,
  low: span.value?.[0] ?? 0,
  high: span.value?.[1] ?? null,
  fitReserved: withReserved.value,
});
