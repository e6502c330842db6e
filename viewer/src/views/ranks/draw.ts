// The heat map as a drawing, for the screen and for saved files.

import { byteTicks } from '../../draw/ticks';
import type { Pen } from '../../draw/pen';
import { entryAt } from '../../numbers/at';
import type { Ranks } from '../../source/source';
import type { Counter } from '../../state/ranks';
import { css, groupColor, unknownColor } from '../../style/colors';
import type { Token } from '../../style/theme';
import { LEVELS, heatColors } from './heat-colors';
import { ranksIn, runsOf, stretchesOf, type Band, type Rows } from './rows';

export interface Subject {
  told: Ranks;
  counter: Counter;
  rows: Rows;
  bands: readonly Band[];
  dark: boolean;
  inks: Record<Token, string>;
}

const BAND = 24;
const HOST = 78;
/** The width of the rank numbers. */
const NUMBERS = 52;
/** The width of the scale beside the map. */
const SCALE = 96;
const TOP = 18;
const BOTTOM = 20;
/** The greatest height of a row, and the approximate height of all rows. */
const HIGHEST_ROW = 20;
const HEIGHT = 400;
const LINE = 13;

/** The position of the map in a drawing of this width. */
export interface Place {
  left: number;
  top: number;
  width: number;
  rowHeight: number;
  /** The height of the whole drawing. */
  height: number;
}

const bandWidth = ({ name }: Band) => (name === 'host' ? HOST : BAND);

export function placeIn({ rows, bands }: Pick<Subject, 'rows' | 'bands'>, width: number): Place {
  const left = bands.reduce((sum, band) => sum + bandWidth(band), 0) + NUMBERS;
  const rowHeight = Math.min(Math.max(Math.floor(HEIGHT / Math.max(rows.count, 1)), 1), HIGHEST_ROW);
  const height = TOP + rows.count * rowHeight + BOTTOM;
  return { left, top: TOP, width: Math.max(width - left - SCALE, 40), rowHeight, height };
}

export function drawHeatMap(pen: Pen, subject: Subject, place: Place): void {
  const { told, counter, rows, inks } = subject;
  const { left, top, width, rowHeight } = place;
  const colors = heatColors(subject.dark);
  const x = (cell: number) => left + Math.round((cell / told.cells) * width);
  const y = (row: number) => top + row * rowHeight;
  const unread: number[] = [];
  for (let row = 0; row < rows.count; row += 1) {
    const ranks = ranksIn(rows, row);
    for (const { from, to, level } of runsOf(told, counter, ranks, LEVELS)) {
      pen.fill(x(from), y(row), x(to) - x(from), rowHeight, entryAt(colors, level));
    }
    if (ranks.some((at) => told.ranks[at]?.kind === null)) unread.push(row);
  }
  for (const row of unread) {
    // Low rows are drawn higher than they are, so that they are visible.
    const tall = Math.max(rowHeight, 3);
    const from = y(row) - (tall - rowHeight) / 2;
    pen.fill(left, from, width, tall, inks.ground);
    pen.hatch(left, from, width, tall, inks.text);
  }
  for (let row = 0; row < rows.count; row += 1) {
    for (const at of ranksIn(rows, row)) {
      const rank = told.ranks[at];
      if (!rank || rank.failed_bytes === null) continue;
      const middle = left + (((rank.failed_cell ?? told.cells - 1) + 0.5) / told.cells) * width;
      cross(pen, middle, y(row) + rowHeight / 2, inks);
    }
  }
  pen.outline(left - 1, top - 1, width + 2, rows.count * rowHeight + 2, inks.line);
  drawBands(pen, subject, place);
  drawScale(pen, subject, place, colors);
  const below = y(rows.count) + BOTTOM / 2 + 2;
  pen.text(left, below, 'first event of each rank', { color: inks.quiet, size: 11, room: width / 2 - 8 });
  pen.text(left + width, below, 'last event', { color: inks.quiet, size: 11, align: 'right' });
}

/** Draws a cross, visible on any color, where a rank ran out of memory. */
function cross(pen: Pen, x: number, y: number, inks: Record<Token, string>): void {
  for (const [color, thickness] of [
    [inks.ground, 5],
    [inks.bad, 2.5],
  ] as const) {
    for (const turn of [-1, 1]) {
      pen.path(
        [
          [x - 4, y - 4 * turn],
          [x + 4, y + 4 * turn],
        ],
        color,
        thickness,
      );
    }
  }
}

function drawBands(pen: Pen, { told, rows, bands, dark, inks }: Subject, { left, top, rowHeight }: Place): void {
  let x = 0;
  for (const band of bands) {
    const width = bandWidth(band);
    pen.text(x, top - 9, band.name, { color: inks.quiet, size: 11, room: width });
    const colors = new Map<string, string>();
    for (const { from, to, value } of stretchesOf(told, rows, band)) {
      const height = (to - from) * rowHeight;
      if (value !== null && !colors.has(value)) colors.set(value, css(groupColor(colors.size, false, dark)));
      const color = value === null ? css(unknownColor(dark)) : (colors.get(value) ?? inks.quiet);
      pen.fill(x, top + from * rowHeight, 6, Math.max(height - (height > 3 ? 1 : 0), 1), color);
      if (value !== null && height >= LINE) {
        pen.text(x + 9, top + from * rowHeight + height / 2, value, { color: inks.text, size: 11, room: width - 11 });
      }
    }
    x += width;
  }
  pen.text(left - 6, top - 9, 'rank', { color: inks.quiet, size: 11, align: 'right' });
  // Rank counts are powers of two, so label every 2^n-th rank.
  const each = 2 ** Math.ceil(Math.log2(LINE / rowHeight));
  for (let row = 0; row < rows.count; row += each) {
    const [first] = ranksIn(rows, row);
    const number = String(told.ranks[first ?? 0]?.rank ?? '');
    const style = { color: inks.text, size: 11, align: 'right', room: NUMBERS - 10 } as const;
    pen.text(left - 6, top + row * rowHeight + Math.max(rowHeight, LINE) / 2, number, style);
  }
}

function drawScale(
  pen: Pen,
  { told, rows, inks, counter }: Subject,
  { left, top, width, rowHeight }: Place,
  colors: readonly string[],
): void {
  const x = left + width + 16;
  const height = rows.count * rowHeight;
  const y = (share: number) => top + Math.round((1 - share) * height);
  colors.forEach((color, level) => {
    const upper = y((level + 1) / LEVELS);
    pen.fill(x, upper, 12, y(level / LEVELS) - upper, color);
  });
  pen.outline(x - 1, top - 1, 14, height + 2, inks.line);
  const end = told.scales[counter].bytes;
  for (const { at, label } of byteTicks(0, end, Math.max(height / 34, 2))) {
    const place = y(at / Math.max(end, 1));
    pen.fill(x + 12, place, 4, 1, inks.quiet);
    pen.text(x + 19, Math.max(place, top + 5), label, { color: inks.quiet, size: 11 });
  }
}
