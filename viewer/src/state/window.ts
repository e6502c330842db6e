// The window of the timeline: the stacked kind of bytes, the axis, and the shown part of both axes.

import { computed } from '@preact/signals';
import type { Axis, ByteKind } from '../source/source';
import { inAddress, inAddressOfDevice, oneOf, interval, unless } from './in-address';
import { current } from './recordings';

/** The kind of bytes that the timeline stacks. */
export const stacked = inAddress('stacked', oneOf<ByteKind>(['allocated', 'requested', 'active', 'reserved']), 'allocated');
/** The timeline's axis: events, or microseconds after the first event. */
export const axis = inAddress('axis', oneOf<Axis>(['events', 'time']), 'events');

const hundredths = (at: number) => Math.round(at * 100) / 100;

/** The shown part of the axis: moments, or microseconds. Null: all of it. */
export const range = inAddressOfDevice(
  'range',
  interval((at) => (axis.value === 'time' ? Math.round(at) : hundredths(at))),
  null,
);
/** The shown part of the axis of bytes; null: from 0 to the fitting value. */
export const byteRange = inAddressOfDevice('bytes', interval(Math.round), null);
/** Whether the timeline leaves room for the reserved line. */
export const withReserved = inAddress('fit', unless('stack'), true);

/** Whether the shown recording has the chosen axis; some have no times. */
export const hasAxis = () => axis.value === 'events' || current.value?.origin_us != null;

/** The ends of the whole axis. */
export const whole = computed<[number, number]>(() => {
  const d = current.value;
  if (!d) return [0, 1];
  return axis.value === 'time' ? [0, Math.max(d.duration_us ?? 0, 1)] : [0, d.events + 1];
});
export const shownRange = computed<[number, number]>(() => range.value ?? whole.value);
