// What the timeline shows: which bytes, along which axis, which part of it.

import { computed } from '@preact/signals';
import type { Axis, ByteKind } from '../source/source';
import { kept, keptOfDevice, oneOf, span as spanForm, unless } from './kept';
import { current } from './recordings';

export const stacked = kept('stacked', oneOf<ByteKind>(['allocated', 'requested', 'active', 'reserved']), 'allocated');
export const axis = kept('axis', oneOf<Axis>(['events', 'time']), 'events');

const hundredths = (at: number) => Math.round(at * 100) / 100;

/** Part of the axis that is shown; null: all. */
export const range = keptOfDevice(
  'range',
  spanForm((at) => (axis.value === 'time' ? Math.round(at) : hundredths(at))),
  null,
);
/** Bytes shown; null: what fits. */
export const span = keptOfDevice('bytes', spanForm(Math.round), null);
/** Whether the timeline leaves room for the reserved line. */
export const withReserved = kept('fit', unless('stack'), true);

/** Whether the shown recording has the chosen axis: some have no times. */
export const hasAxis = () => axis.value === 'events' || current.value?.origin_us != null;

/** Ends of the whole axis. */
export const whole = computed<[number, number]>(() => {
  const d = current.value;
  if (!d) return [0, 1];
  return axis.value === 'time' ? [0, Math.max(d.duration_us ?? 0, 1)] : [0, d.events + 1];
});
export const shownRange = computed<[number, number]>(() => range.value ?? whole.value);
