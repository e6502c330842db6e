// From values to pixels and back, and the arithmetic of moving a range.

export type Range = [from: number, to: number];

/** What a plot shows, and its size in CSS pixels. */
export interface Frame {
  from: number;
  to: number;
  low: number;
  high: number;
  width: number;
  height: number;
}

export const xOf = (f: Frame, at: number) => ((at - f.from) / (f.to - f.from)) * f.width;
export const atOf = (f: Frame, x: number) => f.from + (x / f.width) * (f.to - f.from);
export const yOf = (f: Frame, bytes: number) => f.height - ((bytes - f.low) / (f.high - f.low)) * f.height;
export const bytesOf = (f: Frame, y: number) => f.low + (1 - y / f.height) * (f.high - f.low);

/** Moves `range` into `whole`; it keeps its width where it can. */
export function clamped([from, to]: Range, whole: Range): Range {
  const width = Math.min(to - from, whole[1] - whole[0]);
  const left = Math.min(Math.max(from, whole[0]), whole[1] - width);
  return [left, left + width];
}

/** `factor` below 1 shows less; `at` stays where it is on the screen. */
export function zoomed([from, to]: Range, whole: Range, factor: number, at: number, least: number): Range {
  const most = whole[1] - whole[0];
  const width = Math.min(Math.max((to - from) * factor, Math.min(least, most)), most);
  const left = at - ((at - from) / (to - from)) * width;
  return clamped([left, left + width], whole);
}

export const panned = ([from, to]: Range, whole: Range, by: number): Range => clamped([from + by, to + by], whole);
