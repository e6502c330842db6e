// Where the parts of the timeline lie, in CSS pixels.

import { entryAt, numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import { atOf, xOf, type Viewport } from '../numbers/scale';
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

/** Room for the labels of bytes at the left, and for half of the last label of the axis at the right. */
const LEFT = 78;
const RIGHT = 20;
/** Height of the strip at the top, which holds the labels of marks and of the chosen moment. */
export const STRIP = 19;
/** Height of a row of regions. */
export const BAND_ROW = 16;
/** Height of the axis below the plot. */
const AXIS = 22;

const topOf = (bandRows: number) => STRIP + (bandRows > 0 ? bandRows * BAND_ROW + 2 : 0);

/** The parts within a box of this size; `scale` is the number of device pixels in a CSS pixel. */
export function geometryIn(width: number, height: number, bandRows: number, scale: number): Geometry {
  const whole = (n: number) => Math.max(Math.floor(n * scale), 1) / scale;
  const top = topOf(bandRows);
  const [plotWidth, plotHeight] = [whole(width - LEFT - RIGHT), whole(height - top - AXIS)];
  return { width, height, bandTop: STRIP, bandRows, left: LEFT, top, plotWidth, plotHeight };
}

/** The parts around a plot of this size. */
export function geometryAround(plotWidth: number, plotHeight: number, bandRows: number): Geometry {
  const top = topOf(bandRows);
  const [width, height] = [LEFT + plotWidth + RIGHT, top + plotHeight + AXIS];
  return { width, height, bandTop: STRIP, bandRows, left: LEFT, top, plotWidth, plotHeight };
}

/** How many rows the regions need, one for each depth, at most `most`. */
export function bandRowsOf(regions: Regions | null, most: number): number {
  const deepest = regions?.depth.reduce((a, b) => Math.max(a, b), -1) ?? -1;
  return Math.min(deepest + 1, most);
}

/** The ends of a region on the axis. */
export const regionEnds = (regions: Regions, i: number, axis: Axis): [number, number] =>
  axis === 'time'
    ? [numberAt(regions.from_us, i), numberAt(regions.to_us, i)]
    : [numberAt(regions.from, i), numberAt(regions.to, i)];

/** The regions of one depth, by start. */
interface Row {
  regions: number[];
  /** For each region the latest end among it and those before it, so that the values never fall and can be searched. */
  reach: number[];
}

const rows = new WeakMap<Regions, Partial<Record<Axis, Row[]>>>();

function rowsOf(regions: Regions, axis: Axis): Row[] {
  const known = rows.get(regions) ?? {};
  rows.set(regions, known);
  return (known[axis] ??= makeRows(regions, axis));
}

function makeRows(regions: Regions, axis: Axis): Row[] {
  const made = Array.from({ length: bandRowsOf(regions, Infinity) }, (): Row => ({ regions: [], reach: [] }));
  regions.depth.forEach((depth, i) => {
    const { regions: row, reach } = entryAt(made, depth);
    row.push(i);
    reach.push(Math.max(regionEnds(regions, i, axis)[1], reach.at(-1) ?? -Infinity));
  });
  return made;
}

/** The position of the first region of a row that may reach `at`: all before it end earlier. */
const firstReaching = ({ reach }: Row, at: number) => firstThat(0, reach.length, (i) => entryAt(reach, i) >= at);

/** A region in a viewport, in pixels. */
export interface VisibleRegion {
  region: number;
  left: number;
  right: number;
}

/** The regions of one depth that a viewport shows. Of several in one pixel only the first is given. */
export function* visibleRegions(regions: Regions, axis: Axis, viewport: Viewport, depth: number): Generator<VisibleRegion> {
  const row = rowsOf(regions, axis)[depth];
  if (!row) return;
  /** The right end of the last region that was given, in pixels. */
  let full = -1;
  for (let i = firstReaching(row, viewport.from); i < row.regions.length; ) {
    const region = entryAt(row.regions, i);
    const [from, to] = regionEnds(regions, region, axis);
    if (from > viewport.to) return;
    const left = Math.max(xOf(viewport, from), 0);
    const right = Math.min(Math.max(xOf(viewport, to), left + 1), viewport.width);
    if (to >= viewport.from && right > full + 0.5) yield { region, left, right: (full = right) };
    i = Math.max(i + 1, firstReaching(row, atOf(viewport, full)));
  }
}

/** The region of one depth at a place on the axis, of several the one that began last; null: none. */
export function regionAt(regions: Regions, axis: Axis, viewport: Viewport, at: number, depth: number): number | null {
  const row = rowsOf(regions, axis)[depth];
  if (!row) return null;
  const slack = (viewport.to - viewport.from) / viewport.width;
  let found: number | null = null;
  for (let i = firstReaching(row, at - slack); i < row.regions.length; i += 1) {
    const region = entryAt(row.regions, i);
    const [from, to] = regionEnds(regions, region, axis);
    if (from > at + slack) break;
    if (to >= at - slack) found = region;
  }
  return found;
}
