// Conversion between values and pixels, and the arithmetic of moving a range.

export type Range = [from: number, to: number];

/** The shown part of the axis and of the bytes, and the plot's size in CSS pixels. */
export interface Viewport {
  from: number;
  to: number;
  low: number;
  high: number;
  width: number;
  height: number;
}

/** Conversion from the axis to pixels from the left, and back; from bytes to pixels from the top, and back. */
export const xOf = (f: Viewport, at: number) => ((at - f.from) / (f.to - f.from)) * f.width;
export const atOf = (f: Viewport, x: number) => f.from + (x / f.width) * (f.to - f.from);
export const yOf = (f: Viewport, bytes: number) => f.height - ((bytes - f.low) / (f.high - f.low)) * f.height;
export const bytesOf = (f: Viewport, y: number) => f.low + (1 - y / f.height) * (f.high - f.low);

/** Moves a range into `whole`. It keeps its width unless it is wider than `whole`. */
export function clamped([from, to]: Range, whole: Range): Range {
  const width = Math.min(to - from, whole[1] - whole[0]);
  const left = Math.min(Math.max(from, whole[0]), whole[1] - width);
  return [left, left + width];
}

/** Zooms a range around `at`, which keeps its position on the screen. A factor below 1 shows less, but at least `least`. */
export function zoomed([from, to]: Range, whole: Range, factor: number, at: number, least: number): Range {
  const most = whole[1] - whole[0];
  const width = Math.min(Math.max((to - from) * factor, Math.min(least, most)), most);
  const left = at - ((at - from) / (to - from)) * width;
  return clamped([left, left + width], whole);
}

export const panned = ([from, to]: Range, whole: Range, by: number): Range => clamped([from + by, to + by], whole);
