// Where the parts of the timeline lie, in CSS pixels.

import { entryAt, numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import { atOf, xOf, type Frame } from '../numbers/scale';
import type { Axis, Regions } from '../source/source';

export interface Geometry {
  width: number;
  height: number;
  /** Top and rows of the band of regions. */
  bandTop: number;
  bandRows: number;
  /** The plot: whole device pixels. */
  left: number;
  top: number;
  plotWidth: number;
  plotHeight: number;
}

/** Room for labels of bytes, and at the right so that the last label of x fits. */
const LEFT = 78;
const RIGHT = 20;
/** Above all: labels of marks and of the chosen moment. */
export const STRIP = 19;
export const BAND_ROW = 16;
const AXIS = 22;

const topOf = (bandRows: number) => STRIP + (bandRows > 0 ? bandRows * BAND_ROW + 2 : 0);

/** Within a box; `scale` is device pixels in a CSS pixel. */
export function geometryIn(width: number, height: number, bandRows: number, scale: number): Geometry {
  const whole = (n: number) => Math.max(Math.floor(n * scale), 1) / scale;
  const top = topOf(bandRows);
  const [plotWidth, plotHeight] = [whole(width - LEFT - RIGHT), whole(height - top - AXIS)];
  return { width, height, bandTop: STRIP, bandRows, left: LEFT, top, plotWidth, plotHeight };
}

/** Around a plot. */
export function geometryAround(plotWidth: number, plotHeight: number, bandRows: number): Geometry {
  const top = topOf(bandRows);
  const [width, height] = [LEFT + plotWidth + RIGHT, top + plotHeight + AXIS];
  return { width, height, bandTop: STRIP, bandRows, left: LEFT, top, plotWidth, plotHeight };
}

/** Rows that the regions need, of `most`. */
export function bandRowsOf(regions: Regions | null, most: number): number {
  const deepest = regions?.depth.reduce((a, b) => Math.max(a, b), -1) ?? -1;
  return Math.min(deepest + 1, most);
}

/** Ends of a region on the axis. */
export const regionEnds = (regions: Regions, i: number, axis: Axis): [number, number] =>
  axis === 'time'
    ? [numberAt(regions.from_us, i), numberAt(regions.to_us, i)]
    : [numberAt(regions.from, i), numberAt(regions.to, i)];

/** The regions of one depth, by start. */
interface Row {
  regions: number[];
  /** The last end of each and all before it: it never falls. */
  reach: number[];
}

const rows = new WeakMap<Regions, Partial<Record<Axis, Row[]>>>();

function rowsOf(regions: Regions, axis: Axis): Row[] {
  const known = rows.get(regions) ?? {};
  rows.set(regions, known);
  return (known[axis] ??= rowsMade(regions, axis));
}

function rowsMade(regions: Regions, axis: Axis): Row[] {
  const made = Array.from({ length: bandRowsOf(regions, Infinity) }, (): Row => ({ regions: [], reach: [] }));
  regions.depth.forEach((depth, i) => {
    const { regions: row, reach } = entryAt(made, depth);
    row.push(i);
    reach.push(Math.max(regionEnds(regions, i, axis)[1], reach.at(-1) ?? -Infinity));
  });
  return made;
}

/** The first of a row that may reach `at`: all before it end earlier. */
const firstReaching = ({ reach }: Row, at: number) => firstThat(0, reach.length, (i) => entryAt(reach, i) >= at);

/** A region in a frame, in pixels. */
export interface Seen {
  region: number;
  left: number;
  right: number;
}

/** The regions of a row that a frame shows; more than one a pixel cannot be seen. */
export function* regionsSeen(regions: Regions, axis: Axis, frame: Frame, depth: number): Generator<Seen> {
  const row = rowsOf(regions, axis)[depth];
  if (!row) return;
  /** Up to where the row is full. */
  let full = -1;
  for (let i = firstReaching(row, frame.from); i < row.regions.length; ) {
    const region = entryAt(row.regions, i);
    const [from, to] = regionEnds(regions, region, axis);
    if (from > frame.to) return;
    const left = Math.max(xOf(frame, from), 0);
    const right = Math.min(Math.max(xOf(frame, to), left + 1), frame.width);
    if (to >= frame.from && right > full + 0.5) yield { region, left, right: (full = right) };
    i = Math.max(i + 1, firstReaching(row, atOf(frame, full)));
  }
}

/** The last region to begin at a place of the band; null: none. */
export function regionAt(regions: Regions, axis: Axis, frame: Frame, at: number, depth: number): number | null {
  const row = rowsOf(regions, axis)[depth];
  if (!row) return null;
  const slack = (frame.to - frame.from) / frame.width;
  let found: number | null = null;
  for (let i = firstReaching(row, at - slack); i < row.regions.length; i += 1) {
    const region = entryAt(row.regions, i);
    const [from, to] = regionEnds(regions, region, axis);
    if (from > at + slack) break;
    if (to >= at - slack) found = region;
  }
  return found;
}
