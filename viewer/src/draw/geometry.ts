// Where the parts of the timeline lie, in CSS pixels.

import { entryAt } from '../numbers/at';
import { keptByAxis, momentsOnAxis, rowOf, type Row } from '../numbers/spans';
import type { Axis, Regions } from '../source/source';

export interface Geometry {
  width: number;
  height: number;
  /** Top and rows of the notes. */
  noteTop: number;
  noteRows: number;
  /** Top and rows of the band of regions. */
  bandTop: number;
  bandRows: number;
  /** Top of the row of steps; null where there is none. */
  stepTop: number | null;
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
/** Height of a row of regions or notes. */
export const BAND_ROW = 16;
/** Height of the row of steps. */
export const STEP_ROW = 14;
/** Height of the axis below the plot. */
const AXIS = 22;

/** What lies above a plot: rows of notes, of regions, and below them one of steps. */
export interface RowsAbove {
  notes: number;
  regions: number;
  steps: boolean;
}

export const NOTHING_ABOVE: RowsAbove = { notes: 0, regions: 0, steps: false };

function above({ notes, regions, steps }: RowsAbove): Omit<Geometry, 'width' | 'height' | 'plotWidth' | 'plotHeight'> {
  const band = (rows: number) => (rows > 0 ? rows * BAND_ROW + 2 : 0);
  const bandTop = STRIP + band(notes);
  const below = bandTop + band(regions);
  return {
    noteTop: STRIP,
    noteRows: notes,
    bandTop,
    bandRows: regions,
    stepTop: steps ? below : null,
    left: LEFT,
    top: below + (steps ? STEP_ROW + 2 : 0),
  };
}

/** The parts within a box of this size; `scale` is the number of device pixels in a CSS pixel. */
export function geometryIn(width: number, height: number, rows: RowsAbove, scale: number): Geometry {
  const whole = (n: number) => Math.max(Math.floor(n * scale), 1) / scale;
  const parts = above(rows);
  return {
    ...parts,
    width,
    height,
    plotWidth: whole(width - LEFT - RIGHT),
    plotHeight: whole(height - parts.top - AXIS),
  };
}

/** The parts around a plot of this size. */
export function geometryAround(plotWidth: number, plotHeight: number, rows: RowsAbove): Geometry {
  const parts = above(rows);
  return { ...parts, width: LEFT + plotWidth + RIGHT, height: parts.top + plotHeight + AXIS, plotWidth, plotHeight };
}

/** How many rows the regions need, those that overlap in rows of their own, at most `most`. */
export function bandRowsOf(regions: Regions | null, most: number): number {
  const deepest = regions?.row.reduce((a, b) => Math.max(a, b), -1) ?? -1;
  return Math.min(deepest + 1, most);
}

/** The regions of each row. */
const regionRows = keptByAxis((regions: Regions, axis): Row[] => {
  const made = Array.from({ length: bandRowsOf(regions, Infinity) }, (): number[] => []);
  regions.row.forEach((row, i) => void entryAt(made, row).push(i));
  return made.map((numbers) => rowOf(numbers, (number) => momentsOnAxis(regions, number, axis)));
});

/** The regions of one row; null where there are none. */
export const regionRow = (regions: Regions, axis: Axis, row: number): Row | null => regionRows(regions, axis)[row] ?? null;
