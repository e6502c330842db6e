// Everything that moves what the timeline shows.

import { batch } from '@preact/signals';
import { clamped, panned, zoomed, type Range } from '../numbers/scale';
import { newest } from '../source/newest';
import type { Mark } from '../source/source';
import { reason } from '../text/reason';
import { moment, shownMoment } from './moment';
import { device, file, scope } from './place';
import { current, source } from './recordings';
import { trouble } from './trouble';
import { axis, range, shownRange, byteRange, whole } from './window';

/** The smallest part of the axis that is shown: microseconds, or events. */
export const least = () => (axis.value === 'time' ? 2 : 4);

/** Shows a part of the axis. */
export function show(to: Range): void {
  const [from, end] = clamped(to, whole.value);
  range.value = from <= whole.value[0] && end >= whole.value[1] ? null : [from, end];
}

/** Shows a part that the user chose; one that is too narrow to be shown is widened around its middle. */
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

/** The fewest bytes that the height of the timeline shows. */
const BYTES_LEAST = 512;

/** Zooms the axis of bytes, which shows `shown` now; the byte `at` stays where it is. */
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

/** Of the shown part of the axis, the share below which a range is too narrow to be seen. */
const NARROW = 0.003;
/** Of the shown part of the axis, the share that a range gets when it is brought into view. */
const REVEALED = 0.1;

/**
 * Shows a range of the axis that is out of view, and one that is too narrow to be seen. A narrow one then takes `share` of what
 * is shown; where `share` is 0 the zoom stays.
 */
function bringIntoView([start, end]: Range, share: number): void {
  const [left, right] = shownRange.value;
  const narrow = end - start < (right - left) * NARROW;
  const width = narrow && share > 0 ? Math.max((end - start) / share, least()) : right - left;
  if (end >= left && start <= right && width === right - left) return;
  const middle = (start + end) / 2;
  batch(() => {
    show([middle - width / 2, middle + width / 2]);
    byteRange.value = null;
  });
}

/** Moments that are to be brought into view. */
interface RevealRequest {
  share: number;
  /** What was shown when this was asked for, see `shownNow`. */
  shown: string;
  /** Asks the source where on the axis the moments are. */
  ends: () => Promise<Range>;
}

/** The device, the axis and the moment that are shown, as one text: an answer about others is of no use any more. */
const shownNow = () => [scope.value, axis.value, moment.value].join();
let latest: RevealRequest | null = null;

const queue = newest(
  (request: RevealRequest) => request.ends(),
  (ends, request) => {
    if (request === latest && request.shown === shownNow() && ends.every(Number.isFinite)) bringIntoView(ends, request.share);
  },
  (e) => (trouble.value = reason(e)),
);

function revealMoments([first, last]: Range, share: number): void {
  const [f, d, byTime] = [file.value, device.value, axis.value === 'time'];
  const placeOf = async (at: number) => (byTime && at > 0 ? ((await source.events(f, d, at - 1, 1)).time_us[0] ?? NaN) : at);
  const ends = async (): Promise<Range> => {
    const start = await placeOf(first);
    return [start, last === first ? start : await placeOf(last)];
  };
  queue.want((latest = { share, shown: shownNow(), ends }));
}

/** Brings the lifetime of an allocation into view: from one moment to another, which may be NONE. */
export function reveal(from: number, to: number): void {
  const last = current.value?.events ?? 0;
  revealMoments([from, Math.min(to, last)], REVEALED);
}

/** Chooses the moment that all views show, and brings it into view. */
export function chooseMoment(at: number): void {
  const last = current.value?.events ?? 0;
  moment.value = Math.min(Math.max(Math.round(at), 0), last);
  revealMoments([moment.value, moment.value], 0);
}

export const stepMoment = (by: number) => chooseMoment(shownMoment.value + by);

/** The moment right after the event of a mark. */
export const momentOf = (mark: Mark) => mark.event + 1;

export function jumpToMark(step: 1 | -1): void {
  const at = shownMoment.value;
  const moments = (current.value?.marks ?? []).map(momentOf).sort((a, b) => a - b);
  const next = step > 0 ? moments.find((m) => m > at) : moments.findLast((m) => m < at);
  if (next !== undefined) chooseMoment(next);
}
