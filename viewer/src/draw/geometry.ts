// Positions of the timeline's parts, in CSS pixels.

import { entryAt } from '../numbers/at';
import { keptByAxis, momentsOnAxis, rowOf, type Row } from '../numbers/spans';
import type { Axis, Regions } from '../source/source';

export interface Geometry {
  width: number;
  height: number;
  /** Top edge and number of rows of the notes. */
  noteTop: number;
  noteRows: number;
  /** Top edge and number of rows of the regions. */
  bandTop: number;
  bandRows: number;
  /** Top edge of the row of phases; null if there is none. */
  phaseTop: number | null;
  /** Top edge of the step row; null if there is none. */
  stepTop: number | null;
  /** The plot, aligned to device pixels. */
  left: number;
  top: number;
  plotWidth: number;
  plotHeight: number;
}

/** Room for the byte labels at the left, and for half of the axis's last label at the right. */
const LEFT = 78;
const RIGHT = 20;
/** Height of the top strip with the labels of marks and of the chosen moment. */
export const STRIP = 19;
/** Height of a row of regions or notes. */
export const BAND_ROW = 16;
/** Height of the step row, and of the row of phases. */
export const STEP_ROW = 14;
/** Height of the axis below the plot. */
const AXIS = 22;

/** The rows above a plot: notes, regions, phases, and the step row. */
export interface RowsAbove {
  notes: number;
  regions: number;
  phases: boolean;
  steps: boolean;
}

export const NOTHING_ABOVE: RowsAbove = { notes: 0, regions: 0, phases: false, steps: false };

function above({ notes, regions, phases, steps }: RowsAbove): Omit<Geometry, 'width' | 'height' | 'plotWidth' | 'plotHeight'> {
  const band = (rows: number) => (rows > 0 ? rows * BAND_ROW + 2 : 0);
  const bandTop = STRIP + band(notes);
  const phaseTop = bandTop + band(regions);
  const stepTop = phaseTop + (phases ? STEP_ROW : 0);
  return {
    noteTop: STRIP,
    noteRows: notes,
    bandTop,
    bandRows: regions,
    phaseTop: phases ? phaseTop : null,
    stepTop: steps ? stepTop : null,
    left: LEFT,
    top: stepTop + (steps ? STEP_ROW : 0) + (phases || steps ? 2 : 0),
  };
}

/** Lays out the parts in a box of this size; `scale` is the number of device pixels per CSS pixel. */
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

/** Lays out the parts around a plot of this size. */
export function geometryAround(plotWidth: number, plotHeight: number, rows: RowsAbove): Geometry {
  const parts = above(rows);
  return { ...parts, width: LEFT + plotWidth + RIGHT, height: parts.top + plotHeight + AXIS, plotWidth, plotHeight };
}

/** Returns the number of rows for the regions, at most `most`; overlapping regions need separate rows. */
export function bandRowsOf(regions: Regions | null, most: number): number {
  const deepest = regions?.row.reduce((a, b) => Math.max(a, b), -1) ?? -1;
  return Math.min(deepest + 1, most);
}

/** Returns the regions of each row. */
const regionRows = keptByAxis((regions: Regions, axis): Row[] => {
  const made = Array.from({ length: bandRowsOf(regions, Infinity) }, (): number[] => []);
  regions.row.forEach((row, i) => void entryAt(made, row).push(i));
  return made.map((numbers) => rowOf(numbers, (number) => momentsOnAxis(regions, number, axis)));
});

/** Returns the regions of one row, or null. */
export const regionRow = (regions: Regions, axis: Axis, row: number): Row | null => regionRows(regions, axis)[row] ?? null;
