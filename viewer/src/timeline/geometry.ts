// Where the parts of the timeline lie, in CSS pixels.

import type { Axis, Regions } from '../source/source';
import type { Frame } from './scale';

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
  let rows = 0;
  for (const depth of regions?.depth ?? []) rows = Math.max(rows, depth + 1);
  return Math.min(rows, most);
}

/** Ends of a region on the axis. */
export const regionEnds = (regions: Regions, i: number, axis: Axis): [number, number] =>
  axis === 'time' ? [regions.from_us[i], regions.to_us[i]] : [regions.from[i], regions.to[i]];

/** The innermost region at a place of the band; null: none. */
export function regionAt(regions: Regions, axis: Axis, frame: Frame, at: number, row: number): number | null {
  const slack = (frame.to - frame.from) / frame.width;
  for (let i = regions.name.length - 1; i >= 0; i -= 1) {
    if (regions.depth[i] !== row) continue;
    const [from, to] = regionEnds(regions, i, axis);
    if (at >= from - slack && at <= to + slack) return i;
  }
  return null;
}
