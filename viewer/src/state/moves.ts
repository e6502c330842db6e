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
import { axis, range, shownRange, span, whole } from './window';

/** A view never shows less than this: events, or microseconds. */
const least = () => (axis.value === 'time' ? 2 : 4);

export function show(to: Range): void {
  const [from, end] = clamped(to, whole.value);
  range.value = from <= whole.value[0] && end >= whole.value[1] ? null : [from, end];
}

/** Of a choice by hand, which may be narrower than what is shown at least. */
export function showSelected([from, to]: Range): void {
  const missing = Math.max(least() - (to - from), 0) / 2;
  batch(() => {
    show([from - missing, to + missing]);
    span.value = null;
  });
}

export const zoom = (factor: number, at = (shownRange.value[0] + shownRange.value[1]) / 2) =>
  show(zoomed(shownRange.value, whole.value, factor, at, least()));

export const pan = (by: number) => show(panned(shownRange.value, whole.value, by));

export const panBy = (share: number) => pan((shownRange.value[1] - shownRange.value[0]) * share);

export function fit(): void {
  batch(() => (range.value = span.value = null));
}

const BYTES_LEAST = 512;

/** Bytes, from what is shown now. */
export function zoomBytes(shown: Range, factor: number, at: number): void {
  const everything: Range = [0, Math.max(shown[1] * Math.max(factor, 1), (current.value?.peaks.reserved.bytes ?? 0) * 4)];
  span.value = zoomed(shown, everything, factor, at, BYTES_LEAST);
}

export function panBytes(by: number): void {
  if (span.value) span.value = [Math.max(span.value[0] + by, 0), Math.max(span.value[0] + by, 0) + span.value[1] - span.value[0]];
}

/** Moves there where it is out of sight; what would be too narrow to see becomes this share of what is shown. */
function bring([start, end]: Range, share: number): void {
  const [left, right] = shownRange.value;
  const narrow = end - start < (right - left) * NARROW;
  const width = narrow && share > 0 ? Math.max((end - start) / share, least()) : right - left;
  if (end >= left && start <= right && width === right - left) return;
  const middle = (start + end) / 2;
  batch(() => {
    show([middle - width / 2, middle + width / 2]);
    span.value = null;
  });
}

const NARROW = 0.003;
const REVEALED = 0.1;

/** Moments to bring into view, and of what they are. */
interface Bringing {
  share: number;
  of: string;
  /** Asks where they are on the axis. */
  places: () => Promise<Range>;
}

/** A place on the axis means nothing once another is shown, or another moment chosen. */
const steered = () => [scope.value, axis.value, moment.value].join();
let latest: Bringing | null = null;

const asking = newest(
  (it: Bringing) => it.places(),
  (ends, it) => {
    if (it === latest && it.of === steered() && ends.every(Number.isFinite)) bring(ends, it.share);
  },
  (e) => (trouble.value = reason(e)),
);

function bringMoments([first, last]: Range, share: number): void {
  const [f, d, byTime] = [file.value, device.value, axis.value === 'time'];
  const placeOf = async (at: number) => (byTime && at > 0 ? ((await source.events(f, d, at - 1, 1)).time_us[0] ?? NaN) : at);
  const places = async (): Promise<Range> => {
    const start = await placeOf(first);
    return [start, last === first ? start : await placeOf(last)];
  };
  asking.want((latest = { share, of: steered(), places }));
}

/** Brings a life into view; `to` may be NONE. */
export function reveal(from: number, to: number): void {
  const last = current.value?.events ?? 0;
  bringMoments([from, Math.min(to, last)], REVEALED);
}

export function chooseMoment(at: number): void {
  const last = current.value?.events ?? 0;
  moment.value = Math.min(Math.max(Math.round(at), 0), last);
  bringMoments([moment.value, moment.value], 0);
}

export const stepMoment = (by: number) => chooseMoment(shownMoment.value + by);

/** The moment right after a mark's event. */
export const momentOf = (mark: Mark) => mark.event + 1;

export function jumpToMark(step: 1 | -1): void {
  const at = shownMoment.value;
  const moments = (current.value?.marks ?? []).map(momentOf).sort((a, b) => a - b);
  const next = step > 0 ? moments.find((m) => m > at) : moments.findLast((m) => m < at);
  if (next !== undefined) chooseMoment(next);
}
