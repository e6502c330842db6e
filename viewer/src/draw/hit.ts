// Finds the item at a point of a picture, and computes the lines over the stack.

import { entryAt, numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import type { Range } from '../numbers/scale';
import { NONE, type Picture } from '../source/source';
import type { Overlay } from '../state/replay';

/** Returns the positions of a column's runs: half-open range `from..to`. */
const runsOf = ({ start }: Picture, column: number) => ({ from: start[column] ?? 0, to: start[column + 1] ?? 0 });

/** Returns the item at a pixel column and a row counted from the bottom, or null. */
export function itemAt(picture: Picture, x: number, row: number): number | null {
  const c = picture.column[x];
  if (c === undefined || row < 0) return null;
  const { from, to } = runsOf(picture, c);
  for (let r = from; r < to; r += 1) {
    if (row >= numberAt(picture.end, r)) continue;
    const item = numberAt(picture.item, r);
    return item === NONE ? null : item;
  }
  return null;
}

/** Returns the moment shown in a pixel column; NaN if it shows none. */
export const momentAt = (picture: Picture, x: number): number => picture.moment[picture.column[x] ?? NONE] ?? NaN;

/** Returns the items in the column that shows a moment, from the bottom up, and the moment that the column shows. */
export function blocksIn(picture: Picture, moment: number): { items: number[]; moment: number } {
  const at = placeOf(picture, moment);
  const { window } = picture;
  const x = at === null ? -1 : Math.floor(((at - window.from) / (window.to - window.from)) * window.width);
  const column = picture.column[x] ?? NONE;
  if (column === NONE) return { items: [], moment };
  const { from, to } = runsOf(picture, column);
  const items = [...picture.item.subarray(from, to)].filter((item) => item !== NONE);
  return { items, moment: numberAt(picture.moment, column) };
}

/** Returns a moment's position on the axis. On the time axis, a picture knows only the moments that it shows: null for others. */
export function placeOf(picture: Picture, moment: number): number | null {
  const { axis, from, to, width } = picture.window;
  if (axis === 'events') return moment + 0.5;
  if (moment < momentAt(picture, 0) || moment > momentAt(picture, width - 1)) return null;
  const x = firstThat(0, width - 1, (x) => momentAt(picture, x) >= moment);
  return from + ((x + 0.5) / width) * (to - from);
}

/** Returns the ends on the axis of the events between two moments; an end outside the picture is infinite. */
export function spanOnAxis(picture: Picture, [from, to]: readonly [number, number]): [number, number] {
  // The effect of event `n` is visible from moment `n + 1` on.
  if (picture.window.axis === 'events') return [from + 1, to + 1];
  const place = (at: number) => placeOf(picture, at) ?? (at < momentAt(picture, 0) ? -Infinity : Infinity);
  return [place(from + 1), place(to)];
}

/** Returns the moments before and after the events in a part of the axis. On the time axis they are exact to a pixel. */
export function momentsBetween(picture: Picture, [from, to]: Range): Range {
  const { window } = picture;
  // The effect of event `n` is visible from moment `n + 1` on.
  if (window.axis === 'events') return [from - 1, to - 1];
  const column = (at: number) => Math.floor(((at - window.from) / (window.to - window.from)) * window.width);
  const moment = (at: number) => momentAt(picture, Math.min(Math.max(column(at), 0), window.width - 1));
  return [moment(from), moment(to)];
}

/** Returns the rows of an item per pixel column `x`: half-open range from index `2x` to `2x + 1`; empty where the item is absent. */
export function rowsOf(picture: Picture, item: number): Uint16Array {
  const { column, start, end } = picture;
  const ofColumn = new Uint16Array(2 * (start.length - 1));
  for (let c = 0; c + 1 < start.length; c += 1) {
    const { from, to } = runsOf(picture, c);
    for (let r = from; r < to; r += 1) {
      if (picture.item[r] !== item) continue;
      ofColumn[2 * c] = r === from ? 0 : numberAt(end, r - 1);
      ofColumn[2 * c + 1] = numberAt(end, r);
      break;
    }
  }
  const rows = new Uint16Array(2 * picture.window.width);
  for (let x = 0; x < picture.window.width; x += 1) {
    // Pixel columns without a moment have no rows.
    const c = column[x] ?? NONE;
    rows[2 * x] = ofColumn[2 * c] ?? 0;
    rows[2 * x + 1] = ofColumn[2 * c + 1] ?? 0;
  }
  return rows;
}

/** Returns the number of pixels that each item covers. */
export function areas(picture: Picture): Float64Array {
  const { column, start, item, end } = picture;
  const times = new Uint32Array(start.length - 1);
  for (const c of column) if (c < times.length) times[c] = (times[c] ?? 0) + 1;
  const area = new Float64Array(picture.items.id.length);
  times.forEach((wide, c) => {
    let bottom = 0;
    const { from, to } = runsOf(picture, c);
    for (let r = from; r < to; r += 1) {
      const [of, top] = [numberAt(item, r), numberAt(end, r)];
      if (of !== NONE) area[of] = numberAt(area, of) + (top - bottom) * wide;
      bottom = top;
    }
  });
  return area;
}

/** Returns the number of rows at the bottom left that show memory live before recording began. */
export function rowsBeforeRecording(picture: Picture): number {
  const { from, to } = runsOf(picture, picture.column[0] ?? NONE);
  let rows = 0;
  for (let r = from; r < to; r += 1) {
    const item = numberAt(picture.item, r);
    if (item === NONE || picture.items.from[item] !== 0) break;
    rows = numberAt(picture.end, r);
  }
  return rows;
}

/** The rows by which active bytes must exceed the stack to get a separate line; below that, the line would coincide with the edge. */
const STANDS_OUT = 3;

export interface StackLine {
  kind: 'active' | 'reserved';
  /** Bytes at each pixel column; NaN leaves a gap. */
  values: Float64Array;
  /** Whether steps are drawn without vertical lines between them. */
  apart: boolean;
}

/** Returns the lines over a stack: reserved bytes, and active bytes unless the stack itself shows them. A stack of matches alone has none. */
export function linesOf(picture: Picture): StackLine[] {
  const { window, highest } = picture;
  if (window.stacked === 'reserved') {
    return [{ kind: 'active', values: highest.active, apart: isRestless(picture, highest.active) }];
  }
  if (window.only !== null) return [];
  return [
    { kind: 'active', values: standingOut(picture), apart: true },
    { kind: 'reserved', values: highest.reserved, apart: isRestless(picture, highest.reserved) },
  ];
}

/**
 * Returns active bytes where they exceed the stack, and NaN elsewhere. Single pixels are ignored, because every freed block stays active
 * for a moment.
 */
function standingOut({ window, low, high, highest }: Picture): Float64Array {
  const top = highest[window.stacked];
  const least = ((high - low) / window.height) * STANDS_OUT;
  const stands = (x: number) => (highest.active[x] ?? NaN) > (top[x] ?? NaN) + least;
  return highest.active.map((bytes, x) => (stands(x) && (stands(x - 1) || stands(x + 1)) ? bytes : NaN));
}

/** Whether a line jumps so often that its vertical parts would cover the picture. */
function isRestless({ low, high }: Picture, values: Float64Array): boolean {
  let way = 0;
  let before = values[0] ?? 0;
  for (const value of values) {
    way += Math.abs(value - before);
    before = value;
  }
  return way > 12 * (high - low);
}

/** Returns an overlay's bytes per pixel for moments `first` to `last`: the highest value since the previous pixel. */
export function overlayValues(picture: Picture, points: Overlay['points'], first: number, last: number): Float64Array {
  const values = new Float64Array(picture.window.width);
  let next = 0;
  let value = 0;
  for (let x = 0; x < values.length; x += 1) {
    const until = x === values.length - 1 ? last : momentAt(picture, x);
    let highest = value;
    for (; next < points.length; next += 1) {
      const [moment, bytes] = entryAt(points, next);
      if (!(moment <= until)) break;
      value = bytes;
      highest = moment <= first ? value : Math.max(highest, value);
    }
    values[x] = highest;
  }
  return values;
}
