// The window that the timeline requests, and its other questions: regions, and the bytes at the chosen moment.

import { computed } from '@preact/signals';
import { bandRowsOf, type RowsAbove } from '../draw/geometry';
import { momentAt, overlayValues } from '../draw/hit';
import { noteRows } from './note-shapes';
import { restedPicture } from '../draw/shown';
import { numberAt } from '../numbers/at';
import { onlyQuery, query } from '../search/found';
import type { Picture, Window } from '../source/source';
import { asked } from '../state/asked';
import { restedMoment } from '../state/moment';
import { device, file, view } from '../state/place';
import { current, source } from '../state/recordings';
import { overlay } from '../state/replay';
import { events, regions } from '../state/regions';
import { phases } from '../state/phases';
import { steps } from '../state/steps';
import { axis, shownRange, byteRange, stacked, whole, withReserved } from '../state/window';

/** Whether the timeline is the view itself, not a strip above another view. */
export const tall = computed(() => view.value === 'timeline');

/**
 * The rows above the plot: at most `most` rows each of notes and of regions, then phases and steps, which keep their room until known. A
 * strip with a row of regions has no room for phases.
 */
export const rowsAbove = (most: number): RowsAbove => {
  const regionRows = bandRowsOf(regions.value, most);
  const areUnknown = current.value?.purposes === null;
  return {
    notes: Math.min(noteRows.value, most),
    regions: regionRows,
    phases: (phases.value !== null || areUnknown) && (most > 1 || regionRows === 0),
    steps: steps.value !== null || areUnknown,
  };
};

/** The positions of matches smaller than a pixel of the drawn picture; null without a search. */
export const specks = asked(async (unwanted) => {
  const picture = restedPicture.value?.picture;
  const search = query.value;
  if (!picture || !search || picture.window.stacked === 'reserved') return null;
  const { axis, from, to, width, height } = picture.window;
  const asking = { search, axis, from, to, width, bytes: (picture.high - picture.low) / height };
  const { at, count } = await source.ask(file.value, device.value, { question: 'specks', ...asking }, unwanted);
  const places = Array.from(at.keys()).filter((x) => at[x] === 1);
  return { count, places: places.map((x) => from + ((x + 0.5) / width) * (to - from)) };
});

/** The exact bytes at the chosen moment, for its label: from a one-pixel picture of that moment. */
export const momentBytes = asked(async () => {
  if (events.value === null) return null;
  const at = Math.min(restedMoment.value, events.value);
  const { highest } = await source.picture(file.value, device.value, {
    stacked: 'allocated',
    axis: 'events',
    from: at,
    to: at + 1,
    width: 1,
    height: 1,
    low: 0,
    high: null,
    fit_reserved: false,
    only: null,
  });
  return { moment: at, allocated: numberAt(highest.allocated, 0), reserved: numberAt(highest.reserved, 0) };
});

/** The bytes that the overlay needs at the top; null if a fitted picture has the room anyway. */
const overlayRoom = computed(() => {
  if (!overlay.value || !withReserved.value || onlyQuery.value) return null;
  const peak = overlay.value.points.reduce((highest, [, bytes]) => Math.max(highest, bytes), 0);
  return peak > (current.value?.peaks.reserved.bytes ?? 0) ? peak * 1.04 : null;
});

/** Returns the overlay's bytes at each pixel; null without an overlay. */
export function overlayLine(picture: Picture): Float64Array | null {
  if (!overlay.value) return null;
  const { axis, from, to, width } = picture.window;
  // On the time axis, a picture does not contain the moments next to those that it shows.
  const [first, last] =
    axis === 'events'
      ? [Math.floor(from), Math.ceil(to) - 1]
      : [from <= whole.value[0] ? 0 : momentAt(picture, 0), to >= whole.value[1] ? Infinity : momentAt(picture, width - 1)];
  return overlayValues(picture, overlay.value.points, first, last);
}

/** Returns the window of the current state, at a size in device pixels. */
export const windowOf = (width: number, height: number): Window => ({
  stacked: stacked.value,
  axis: axis.value,
  from: shownRange.value[0],
  to: shownRange.value[1],
  width,
  height,
  low: byteRange.value?.[0] ?? 0,
  high: byteRange.value?.[1] ?? overlayRoom.value,
  // The matches alone are usually far below the reserved bytes.
  fit_reserved: withReserved.value && onlyQuery.value === null,
  // Reserved ranges are not searched.
  only: stacked.value === 'reserved' ? null : onlyQuery.value,
});
