// All movements of the timeline's window.

import { batch, computed, signal } from '@preact/signals';
import { clamped, panned, zoomed, type Range } from '../numbers/scale';
import { newest } from '../source/newest';
import type { Marker, Place, Query } from '../source/source';
import { reason } from '../text/reason';
import { moment, shownMoment } from './moment';
import { device, file, scope } from './place';
import { current, source } from './recordings';
import { selected } from './selection';
import { interval } from './interval';
import { trouble } from './trouble';
import { axis, range, shownRange, byteRange, stacked, whole } from './window';

/** The smallest shown part of the axis: microseconds, or events. */
export const least = () => (axis.value === 'time' ? 2 : 4);

/** Shows a part of the axis. */
export function show(to: Range): void {
  const [from, end] = clamped(to, whole.value);
  range.value = from <= whole.value[0] && end >= whole.value[1] ? null : [from, end];
}

/** Shows a part that the user chose; a part that is too narrow is widened around its middle. */
export function showSelected([from, to]: Range): void {
  const missing = Math.max(least() - (to - from), 0) / 2;
  batch(() => {
    show([from - missing, to + missing]);
    byteRange.value = null;
  });
}

export const zoom = (factor: number, at = (shownRange.value[0] + shownRange.value[1]) / 2) =>
  show(zoomed(shownRange.value, whole.value, factor, at, least()));

export const pan = (by: number) => show(panned(shownRange.value, whole.value, by));

export const panBy = (share: number) => pan((shownRange.value[1] - shownRange.value[0]) * share);

export function fit(): void {
  batch(() => (range.value = byteRange.value = null));
}

/** The fewest bytes over the height of the timeline. */
const BYTES_LEAST = 512;

/** Zooms the axis of bytes, which currently shows `shown`; the byte `at` keeps its position. */
export function zoomBytes(shown: Range, factor: number, at: number): void {
  const everything: Range = [0, Math.max(shown[1] * Math.max(factor, 1), (current.value?.peaks.reserved.bytes ?? 0) * 4)];
  byteRange.value = zoomed(shown, everything, factor, at, BYTES_LEAST);
}

export function panBytes(by: number): void {
  if (byteRange.value)
    byteRange.value = [
      Math.max(byteRange.value[0] + by, 0),
      Math.max(byteRange.value[0] + by, 0) + byteRange.value[1] - byteRange.value[0],
    ];
}

/** Scrolls to a position on the axis if it is out of view. */
function bringIntoView(at: number): void {
  const [left, right] = shownRange.value;
  // Some recordings have no times: `at` is NaN.
  if (!(at < left || at > right)) return;
  const half = (right - left) / 2;
  batch(() => {
    show([at - half, at + half]);
    byteRange.value = null;
  });
}

/** A move to a place that the source must look up. */
interface Showing<T> {
  /** The state at the request, as one text: an answer for another state is dropped. */
  of: string;
  ask: () => Promise<T>;
}

/** The number of unanswered moves. */
const unanswered = signal(0);
/** Whether the last user action is about to move the window. */
export const isMoving = computed(() => unanswered.value > 0);

const showing = <T>(shown: () => string, show: (answer: T) => void) => {
  let wanted: Showing<T> | null = null;
  const done = (asked: Showing<T>) => {
    if (asked !== wanted) return;
    wanted = null;
    unanswered.value -= 1;
  };
  const queue = newest(
    ({ ask }: Showing<T>) => ask(),
    (answer, asked) =>
      batch(() => {
        if (asked.of === shown()) show(answer);
        done(asked);
      }),
    (e, asked) => {
      trouble.value = reason(e);
      done(asked);
    },
  );
  return (ask: () => Promise<T>) => {
    if (!wanted) unanswered.value += 1;
    wanted = { of: shown(), ask };
    queue.want(wanted);
  };
};
const showMoment = showing(() => [scope.value, axis.value, moment.value].join(), bringIntoView);
const showEvents = showing(() => [scope.value, axis.value, interval.value].join(), showSelected);
const showPlace = showing(() => [scope.value, axis.value, selected.value].join(), zoomTo);

/** The part shown around an allocation on each side, as a fraction of its lifetime. */
const AROUND = 0.2;
/** The greatest height of the shown part of the stack, in heights of the allocation, which moves as allocations below it are freed. */
const HIGHEST = 25;

/** Zooms to an allocation's lifetime, and the bytes around it, in the stack of the matches of `only`. */
export function zoomToAllocation(id: number, only: Query | null): void {
  const kind = stacked.value === 'reserved' ? 'allocated' : stacked.value;
  showPlace(() => source.ask(file.value, device.value, { question: 'place', id, stacked: kind, only }));
}

function zoomTo({ from, to, from_us, to_us, bytes, below_first, below_last }: Place): void {
  const [start, end] = axis.value === 'time' ? [from_us ?? 0, to_us ?? 0] : [from, to];
  const high = below_first + bytes;
  const low = Math.max(below_last, high - HIGHEST * bytes);
  const [wide, tall] = [Math.max((end - start) * AROUND, least() / 2), Math.max((high - low) * AROUND, BYTES_LEAST / 2)];
  batch(() => {
    show([start - wide, end + wide]);
    byteRange.value = [Math.max(low - tall, 0), high + tall];
  });
}

/** Chooses the moment that all views show, and scrolls to it. */
export function chooseMoment(to: number): void {
  const last = current.value?.events ?? 0;
  const at = Math.min(Math.max(Math.round(to), 0), last);
  moment.value = at;
  const [f, d, byTime] = [file.value, device.value, axis.value === 'time'];
  showMoment(async () =>
    byTime && at > 0 ? ((await source.ask(f, d, { question: 'events', first: at - 1, count: 1 })).time_us[0] ?? NaN) : at,
  );
}

/** Shows the events between two moments. */
export function showBetween([from, to]: Range): void {
  const [f, d, byTime] = [file.value, device.value, axis.value === 'time'];
  const timeOf = async (event: number) =>
    (await source.ask(f, d, { question: 'events', first: event, count: 1 })).time_us[0] ?? 0;
  // The effect of event `n` is visible from moment `n + 1` on.
  showEvents(async () => (byTime ? [await timeOf(from), await timeOf(to - 1)] : [from + 1, to + 1]));
}

export const stepMoment = (by: number) => chooseMoment(shownMoment.value + by);

/** Returns the moment right after a marker's event. */
export const momentOf = (marker: Marker) => marker.event + 1;

export function jumpToMark(step: 1 | -1): void {
  const at = shownMoment.value;
  const moments = (current.value?.markers ?? []).map(momentOf).sort((a, b) => a - b);
  const next = step > 0 ? moments.find((m) => m > at) : moments.findLast((m) => m < at);
  if (next !== undefined) chooseMoment(next);
}
