// Computes the rows in view of a scrolling list. Browsers limit an element's height to about sixteen million pixels, so a list higher
// than MAX_HEIGHT is scaled: a pixel of the scrollbar stands for several pixels of rows.

export const MAX_HEIGHT = 8_000_000;

export interface Scrolling {
  count: number;
  rowHeight: number;
  viewport: number;
}

/** Height of all rows, in CSS pixels. */
const virtualHeight = (s: Scrolling) => s.count * s.rowHeight;

/** Height of the element that represents them in the document. */
export const physicalHeight = (s: Scrolling) => Math.min(virtualHeight(s), MAX_HEIGHT);

const virtualRoom = (s: Scrolling) => Math.max(virtualHeight(s) - s.viewport, 0);
const physicalRoom = (s: Scrolling) => Math.max(physicalHeight(s) - s.viewport, 0);

export const isScaled = (s: Scrolling) => virtualHeight(s) > MAX_HEIGHT;

/** Conversion from the element's scroll position to the position in the rows, and back. */
export function toVirtual(s: Scrolling, scrollTop: number): number {
  const room = physicalRoom(s);
  return room === 0 ? 0 : clamp((scrollTop / room) * virtualRoom(s), 0, virtualRoom(s));
}

export function toPhysical(s: Scrolling, position: number): number {
  const room = virtualRoom(s);
  return room === 0 ? 0 : (clamp(position, 0, room) / room) * physicalRoom(s);
}

export const clampPosition = (s: Scrolling, position: number) => clamp(position, 0, virtualRoom(s));

/** Returns the rows at least partly in view, and `around` more on each side, as the half-open range `first..last`. */
export function rowsSeen(s: Scrolling, position: number, around = 4): { first: number; last: number } {
  const first = Math.floor(position / s.rowHeight) - around;
  const last = Math.ceil((position + s.viewport) / s.rowHeight) + around;
  return { first: clamp(first, 0, s.count), last: clamp(last, 0, s.count) };
}

/** Returns the rows of `first..last`, and the row `kept` wherever it is; a negative `kept` means none. */
export function rowsKept(first: number, last: number, kept: number): number[] {
  const seen = Array.from({ length: last - first }, (_, i) => first + i);
  if (kept < 0 || (kept >= first && kept < last)) return seen;
  return kept < first ? [kept, ...seen] : [...seen, kept];
}

/** Whether `row` is entirely in view. */
export const isInView = (s: Scrolling, position: number, row: number) => reveal(s, position, row) === position;

/** Returns the nearest position at which `row` is entirely in view. A distant row is centered. */
export function reveal(s: Scrolling, position: number, row: number): number {
  const top = row * s.rowHeight;
  const bottom = top + s.rowHeight;
  if (top >= position && bottom <= position + s.viewport) return position;
  const near = top >= position - s.viewport && bottom <= position + 2 * s.viewport;
  if (!near) return clampPosition(s, top - (s.viewport - s.rowHeight) / 2);
  return clampPosition(s, top < position ? top : bottom - s.viewport);
}

/** Returns the row that a key leads to from row `at` of `count`, with `page` rows per page; null for other keys. */
export function stepOf(key: string, at: number, count: number, page: number): number | null {
  const to = (row: number) => clamp(row, 0, count - 1);
  switch (key) {
    case 'ArrowDown':
      return to(at + 1);
    case 'ArrowUp':
      return to(at - 1);
    case 'PageDown':
      return to(at + page);
    case 'PageUp':
      return to(at - page);
    case 'Home':
      return 0;
    case 'End':
      return count - 1;
    default:
      return null;
  }
}

function clamp(n: number, low: number, high: number): number {
  return Math.min(Math.max(n, low), high);
}
