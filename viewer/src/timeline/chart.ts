// Draws everything around and over the painted stack: axes, regions, markers, the selection, the chosen moment. It uses a pen
// (draw/pen.ts), so that saved pictures match the screen.

import { BAND_ROW, STEP_ROW, STRIP, regionRow, type Geometry } from '../draw/geometry';
import type { PlacedNote } from './note-shapes';
import { edges } from './outline';
import { nameOfPhase, phaseRow } from '../draw/phase-row';
import { stepLabels, stepRows } from './step-row';
import type { Pen } from '../draw/pen';
import { textWidth } from '../draw/text-width';
import { byteTicks, eventTicks, timeTicks } from '../draw/ticks';
import { entryAt, numberAt } from '../numbers/at';
import { xOf, yOf, type Viewport } from '../numbers/scale';
import { visibleSpans } from '../numbers/spans';
import type { Axis, Marker, Phases, Picture, Regions, Steps } from '../source/source';
import { momentOf } from '../state/moves';
import { css, mix, parse, textColor } from '../style/colors';
import type { Token } from '../style/theme';
import { bytes, count } from '../text/units';

/** The content of the chart. */
export interface Scene {
  geometry: Geometry;
  viewport: Viewport;
  axis: Axis;
  inks: Record<Token, string>;
  dark: boolean;
  notes: readonly PlacedNote[];
  regions: Regions | null;
  phases: Phases | null;
  steps: Steps | null;
  markers: readonly Marker[];
  /** The chosen moment's position on the axis, and its label; null if the picture does not show it. */
  moment: { at: number; label: string } | null;
  /** The ends of the chosen interval on the axis; null without one. */
  span: readonly [number, number] | null;
  /** The position of the compared moment on the axis. */
  against: number | null;
  /** Rows of the selected item in the picture's pixel columns; null without a selection, or if the picture lacks it. */
  outlined: { picture: Picture; rows: Uint16Array } | null;
  /** The ends of the selected allocation's lifetime on the axis. */
  lifetime: readonly [number, number] | null;
  /** The starts on the axis of matches smaller than a pixel. */
  specks: readonly number[];
  /** The same for the selected allocation; null if it is large enough to be visible. */
  selectedSpeck: number | null;
  /** Memory live before recording began: its height at the left edge in CSS pixels, and a label. */
  before: { height: number; label: string } | null;
}

const SMALL = 11;
const FONT = { family: 'sans', size: SMALL, bold: false } as const;

/** Makes a color transparent. */
const clear = (color: string, alpha: number) => {
  const rgb = parse(color);
  return `rgba(${rgb >>> 16}, ${(rgb >>> 8) & 255}, ${rgb & 255}, ${alpha})`;
};

export function drawChart(pen: Pen, scene: Scene): void {
  drawAxes(pen, scene);
  drawNotes(pen, scene);
  drawRegions(pen, scene);
  drawBefore(pen, scene);
  drawSpan(pen, scene);
  drawLifetime(pen, scene);
  drawOutline(pen, scene);
  drawSpecks(pen, scene);
  drawMarks(pen, scene);
  drawAgainst(pen, scene);
  drawMoment(pen, scene);
  // Drawn last, because the line of the peak crosses the number of the step with the peak.
  drawPhases(pen, scene);
  drawSteps(pen, scene);
}

function drawAxes(pen: Pen, { geometry: g, viewport, axis, inks }: Scene): void {
  const bottom = g.top + g.plotHeight;
  for (const tick of byteTicks(viewport.low, viewport.high, g.plotHeight / 34)) {
    const y = Math.round(g.top + yOf(viewport, tick.at));
    if (y < g.top - 0.5) continue;
    pen.fill(g.left, y, g.plotWidth, 1, clear(inks.quiet, 0.16));
    pen.text(g.left - 8, Math.max(y, g.top + 5), tick.label, { color: inks.quiet, align: 'right', size: SMALL });
  }
  let first = Infinity;
  const most = g.plotWidth / 110;
  const ticks = axis === 'time' ? timeTicks(viewport.from, viewport.to, most) : eventTicks(viewport.from, viewport.to, most);
  for (const tick of ticks) {
    const x = g.left + xOf(viewport, tick.at);
    pen.fill(Math.round(x), bottom, 1, 4, inks.line);
    const half = textWidth(tick.label, FONT) / 2;
    const middle = Math.min(x, g.width - half - 2);
    first = Math.min(first, middle - half);
    pen.text(middle, bottom + 13, tick.label, { color: inks.quiet, align: 'center', size: SMALL });
  }
  const name = axis === 'time' ? 'time' : 'event';
  const room = Math.min(first - 8, g.left - 8);
  pen.text(room, bottom + 13, name, { color: inks.quiet, align: 'right', size: SMALL, room });
  pen.fill(g.left, bottom, g.plotWidth, 1, inks.line);
  pen.fill(g.left - 1, g.top, 1, g.plotHeight + 1, inks.line);
}

/** Draws notes, each a bar over its range; its text continues beside the bar if there is room. */
function drawNotes(pen: Pen, { geometry: g, inks, notes }: Scene): void {
  const ground = parse(inks.ground);
  for (const { note, row, left, right, label, room } of notes) {
    const y = g.noteTop + row * BAND_ROW;
    pen.fill(g.left + left, y, right - left, BAND_ROW - 1, css(mix(parse(inks.accent), ground, 0.78)));
    pen.fill(g.left + left, y, Math.min(2, right - left), BAND_ROW - 1, inks.accent);
    pen.text(g.left + label, y + BAND_ROW / 2, note.text, { color: inks.text, size: SMALL, room, keeps: 'end' });
  }
}

function drawRegions(pen: Pen, { geometry: g, viewport, axis, inks, dark, regions }: Scene): void {
  if (!regions || g.bandRows === 0) return;
  const ground = parse(inks.ground);
  for (let row = 0; row < g.bandRows; row += 1) {
    const y = g.bandTop + row * BAND_ROW;
    const spans = regionRow(regions, axis, row);
    for (const { number, left, right } of spans ? visibleSpans(spans, viewport) : []) {
      const name = entryAt(regions.names, numberAt(regions.name, number));
      const gap = right - left > 3 ? 1 : 0;
      pen.fill(g.left + left, y, right - left - gap, BAND_ROW - 1, css(mix(textColor(name, dark), ground, 0.62)));
      if (right - left > 24) {
        pen.text(g.left + left + 5, y + BAND_ROW / 2, name, { color: inks.text, size: SMALL, room: right - left - 10 });
      }
    }
  }
}

/** The least width in CSS pixels of an unusual step, so that it is visible among thousands. */
const UNUSUAL_LEAST = 3;

/** Draws the steps as a plain row of numbers; unusual steps get a bar above and bold numbers. */
function drawSteps(pen: Pen, { geometry: g, viewport, axis, inks, steps }: Scene): void {
  if (!steps || g.stepTop === null) return;
  const [top, height] = [g.stepTop, STEP_ROW - 1];
  const ground = parse(inks.ground);
  const rows = stepRows(steps, axis);
  pen.text(g.left - 8, top + height / 2, 'step', { color: inks.quiet, align: 'right', size: SMALL });
  for (const { left, right } of visibleSpans(rows.all, viewport)) {
    const gap = right - left > 3 ? 1 : 0;
    pen.fill(g.left + left, top, right - left - gap, height, css(mix(parse(inks.quiet), ground, 0.84)));
  }
  for (const { left, right } of visibleSpans(rows.unusual, viewport)) {
    const begin = Math.min(left, viewport.width - UNUSUAL_LEAST);
    const width = Math.max(right - left - 1, UNUSUAL_LEAST);
    pen.fill(g.left + begin, top, width, height, css(mix(parse(inks.warn), ground, 0.7)));
    pen.fill(g.left + begin, top, width, 2, inks.warn);
  }
  for (const { x, text, isUnusual } of stepLabels(rows, viewport, (text, bold) => textWidth(text, { ...FONT, bold }))) {
    pen.text(g.left + x, top + height / 2 + 0.5, text, { color: inks.text, align: 'center', size: SMALL, bold: isUnusual });
  }
}

/** Draws the phases as a row of bars with their names; the names of inferred phases say so where there is room. */
function drawPhases(pen: Pen, { geometry: g, viewport, axis, inks, dark, phases }: Scene): void {
  if (!phases || g.phaseTop === null) return;
  const [top, height] = [g.phaseTop, STEP_ROW - 1];
  const ground = parse(inks.ground);
  pen.text(g.left - 8, top + height / 2, 'phase', { color: inks.quiet, align: 'right', size: SMALL });
  for (const { number, left, right } of visibleSpans(phaseRow(phases, axis), viewport)) {
    const gap = right - left > 3 ? 1 : 0;
    const name = nameOfPhase(phases, number);
    pen.fill(g.left + left, top, right - left - gap, height, css(mix(textColor(name, dark), ground, 0.62)));
    const room = right - left - 8;
    const whole = phases.is_inferred[number] ? `${name} (inferred)` : name;
    const label = textWidth(whole, FONT) <= room ? whole : name;
    if (room > 16) pen.text(g.left + left + 4, top + height / 2 + 0.5, label, { color: inks.text, size: SMALL, room });
  }
}

/** The least height in CSS pixels for a label. */
const LABEL_FROM = 18;

function drawBefore(pen: Pen, { geometry: g, inks, before }: Scene): void {
  if (!before || before.height < LABEL_FROM) return;
  const y = g.top + g.plotHeight - Math.min(before.height / 2, 16);
  const width = textWidth(before.label, FONT) + 12;
  if (width > g.plotWidth - 16) return;
  pen.fill(g.left + 8, y - 8, width, 16, clear(inks.ground, 0.9));
  pen.text(g.left + 14, y, before.label, { color: inks.text, size: SMALL });
}

/** Shades both sides of the chosen interval, and draws its edges and a bar on the axis below it. */
function drawSpan(pen: Pen, { geometry: g, viewport, inks, span }: Scene): void {
  if (!span) return;
  const place = (at: number) => Math.min(Math.max(xOf(viewport, at), 0), g.plotWidth);
  const [left, right] = [place(span[0]), place(span[1])];
  const shade = clear(inks.ground, 0.6);
  if (left > 0) pen.fill(g.left, g.top, left, g.plotHeight, shade);
  if (right < g.plotWidth) pen.fill(g.left + right, g.top, g.plotWidth - right, g.plotHeight, shade);
  for (const at of span) {
    if (at < viewport.from || at > viewport.to) continue;
    pen.fill(g.left + place(at) - 0.5, g.top, 1, g.plotHeight + 6, inks.accent);
  }
  if (span[1] >= viewport.from && span[0] <= viewport.to)
    pen.fill(g.left + left, g.top + g.plotHeight + 3, Math.max(right - left, 2), 3, inks.accent);
}

function drawLifetime(pen: Pen, { geometry: g, viewport, inks, lifetime }: Scene): void {
  if (!lifetime) return;
  const left = Math.max(xOf(viewport, lifetime[0]), 0);
  const right = Math.min(Math.max(xOf(viewport, lifetime[1]), left + 2), g.plotWidth);
  if (right > left) pen.fill(g.left + left, g.top + g.plotHeight, right - left, 3, inks.accent);
}

/** Draws the outline of the selected item: a dark line within a light one, visible on any color. */
function drawOutline(pen: Pen, { geometry: g, viewport, inks, outlined }: Scene): void {
  if (!outlined) return;
  const { window, low, high } = outlined.picture;
  const place = (x: number) => xOf(viewport, window.from + (x / window.width) * (window.to - window.from));
  const height = (row: number) => yOf(viewport, low + (row / window.height) * (high - low));
  const lines = edges(outlined.rows).map((edge) => ({
    left: place(edge.left),
    right: place(edge.right),
    top: height(edge.top),
    bottom: height(edge.bottom),
  }));
  for (const [thickness, color] of [
    [4, inks.ground],
    [2, inks.text],
  ] as const) {
    for (const line of lines) {
      const left = Math.max(line.left - thickness / 2, 0);
      const right = Math.min(line.right + thickness / 2, g.plotWidth);
      const top = Math.max(line.top - thickness / 2, 0);
      const bottom = Math.min(line.bottom + thickness / 2, g.plotHeight);
      if (right > left && bottom > top) pen.fill(g.left + left, g.top + top, right - left, bottom - top, color);
    }
  }
}

/** Heights in CSS pixels of the triangles that point to items too small to see. */
const SPECK = 5;
const SELECTED_SPECK = 9;

/** Draws triangles at the lower edge at matches smaller than a pixel, and a larger one at the selection. */
function drawSpecks(pen: Pen, { geometry: g, viewport, inks, specks, selectedSpeck }: Scene): void {
  let full = -Infinity;
  for (const at of specks) {
    const x = xOf(viewport, at);
    // Overlapping triangles are drawn as one.
    if (x < Math.max(full + SPECK + 1, 0) || x > viewport.width) continue;
    full = x;
    drawTriangle(pen, g.left + x, g.top + g.plotHeight, SPECK, inks.ground, inks.accent);
  }
  if (selectedSpeck === null || selectedSpeck > viewport.to) return;
  drawTriangle(pen, g.left + xOf(viewport, selectedSpeck), g.top + g.plotHeight, SELECTED_SPECK, inks.ground, inks.text);
}

/** Draws an upward triangle on `bottom`, with a rim that is visible on any color. */
function drawTriangle(pen: Pen, x: number, bottom: number, height: number, rim: string, color: string): void {
  for (let row = 0; row <= height; row += 1) {
    const half = (height - row) / 2;
    pen.fill(x - half - 1, bottom - row - 1, 2 * half + 2, 1, rim);
    if (row < height) pen.fill(x - half, bottom - row - 1, 2 * half, 1, color);
  }
}

function drawMarks(pen: Pen, scene: Scene): void {
  const { geometry: g, viewport, axis, inks, markers } = scene;
  const chosen = momentBox(scene);
  let taken = -Infinity;
  for (const marker of markers) {
    const at = axis === 'time' ? marker.time_us : momentOf(marker);
    if (at === null || at < viewport.from || at > viewport.to) continue;
    const x = g.left + xOf(viewport, at);
    const color = marker.kind === 'oom' ? inks.bad : inks.quiet;
    pen.fill(x - 1, STRIP - 4, marker.kind === 'oom' ? 2 : 1, g.top + g.plotHeight - STRIP + 4, color);
    const label = marker.kind === 'oom' ? `out of memory: ${bytes(marker.bytes)}` : 'snapshot';
    const width = textWidth(label, FONT) + 8;
    const places = [x + 3, x - width, ...(chosen ? [chosen.right + 6, chosen.left - width - 2] : [])];
    const isFree = (left: number) =>
      left >= taken && left + width <= g.width && !(chosen && left < chosen.right && left + width > chosen.left);
    const left = places.find(isFree);
    if (left === undefined) continue;
    taken = left + width;
    pen.text(left, STRIP / 2, label, { color, size: SMALL });
  }
}

function drawAgainst(pen: Pen, { geometry: g, viewport, inks, against }: Scene): void {
  if (against === null || against < viewport.from || against > viewport.to) return;
  const x = g.left + xOf(viewport, against);
  for (let y = STRIP; y < g.top + g.plotHeight; y += 8) pen.fill(x - 0.5, y, 1.5, 4, inks.accent);
  pen.text(x + 4, STRIP / 2, 'compared with', { color: inks.accent, size: SMALL, room: g.width - x - 4 });
}

/** Returns the position of the chosen moment's label, in CSS pixels; null if the moment is out of view. */
function momentBox({ geometry: g, viewport, moment }: Scene): { x: number; left: number; right: number; label: string } | null {
  if (!moment || moment.at < viewport.from || moment.at > viewport.to) return null;
  const x = g.left + xOf(viewport, moment.at);
  const width = textWidth(moment.label, FONT) + 12;
  const left = Math.min(Math.max(x - width / 2, 2), g.width - width - 2);
  return { x, left, right: left + width, label: moment.label };
}

function drawMoment(pen: Pen, scene: Scene): void {
  const { geometry: g, inks } = scene;
  const box = momentBox(scene);
  if (!box) return;
  const width = box.right - box.left;
  pen.fill(box.x - 0.5, STRIP - 2, 1.5, g.top + g.plotHeight - STRIP + 2, inks.accent);
  pen.fill(box.left - 2, 0, width + 4, STRIP, inks.ground);
  pen.fill(box.left, 1, width, STRIP - 3, inks.accent);
  pen.text(box.left + 6, STRIP / 2 - 0.5, box.label, { color: inks['on-accent'], size: SMALL });
}

/** Describes the timeline for screen readers. */
export function description(picture: Picture): string {
  const { stacked, axis, from, to } = picture.window;
  const where =
    axis === 'events'
      ? `events ${count(Math.max(from - 1, 0))} to ${count(Math.max(to - 2, 0))}`
      : `${(from / 1e6).toFixed(3)} s to ${(to / 1e6).toFixed(3)} s`;
  const peak = picture.highest[stacked].reduce((a, b) => Math.max(a, b), 0);
  const what = stacked === 'reserved' ? 'reserved ranges' : `live allocations by ${stacked} bytes`;
  return `Timeline of ${what}, ${where}: at most ${bytes(peak)} ${stacked}, ${count(picture.items.id.length)} items.`;
}
