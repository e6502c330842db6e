// The window of the timeline: which kind of bytes it stacks, along which axis, and which part of both axes it shows.

import { computed } from '@preact/signals';
import type { Axis, ByteKind } from '../source/source';
import { kept, keptOfDevice, oneOf, interval, unless } from './kept';
import { current } from './recordings';

/** The kind of bytes that the timeline stacks. */
export const stacked = kept('stacked', oneOf<ByteKind>(['allocated', 'requested', 'active', 'reserved']), 'allocated');
/** What the timeline lies along: events, or microseconds after the first event. */
export const axis = kept('axis', oneOf<Axis>(['events', 'time']), 'events');

const hundredths = (at: number) => Math.round(at * 100) / 100;

/** The part of the axis that is shown: moments, or microseconds. Null: all of it. */
export const range = keptOfDevice(
  'range',
  interval((at) => (axis.value === 'time' ? Math.round(at) : hundredths(at))),
  null,
);
/** The part of the axis of bytes that is shown; null: from 0 to what fits. */
export const byteRange = keptOfDevice('bytes', interval(Math.round), null);
/** Whether the timeline leaves room for the reserved line. */
export const withReserved = kept('fit', unless('stack'), true);

/** Whether the shown recording has the chosen axis: some have no times. */
export const hasAxis = () => axis.value === 'events' || current.value?.origin_us != null;

/** The ends of the whole axis. */
export const whole = computed<[number, number]>(() => {
  const d = current.value;
  if (!d) return [0, 1];
  return axis.value === 'time' ? [0, Math.max(d.duration_us ?? 0, 1)] : [0, d.events + 1];
});
export const shownRange = computed<[number, number]>(() => range.value ?? whole.value);
