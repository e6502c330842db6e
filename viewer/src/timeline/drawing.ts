// The timeline as a drawing to save: what the screen shows, with neighbouring columns of an item as one rectangle.

import { css } from '../colors';
import type { Pen } from '../parts/pen';
import type { Drawing } from '../save/picture';
import { inks } from '../shell/theme';
import type { Picture } from '../source/source';
import { drawChart } from './chart';
import { bandRowsOf, geometryAround, type Geometry } from './geometry';
import { linesOf, overlayValues } from './hit';
import { itemColors, regions, shown } from './model';
import { overlay } from './overlay';
import { rectangles } from './rectangles';
import { yOf, type Frame } from './scale';
import { sceneOf } from './scene';

const BAND_ROWS = 4;

export function timelineDrawing(): Drawing {
  const picture = shown.value?.picture;
  if (!picture) throw new Error('nothing is drawn yet');
  const [width, height] = [picture.window.width / devicePixelRatio, picture.window.height / devicePixelRatio];
  const around = geometryAround(width, height, bandRowsOf(regions.value, BAND_ROWS));
  return { width: around.width, height: around.height, ground: inks.value.ground, draw: (pen) => draw(pen, picture, around) };
}

function draw(pen: Pen, picture: Picture, g: Geometry): void {
  const { from, to } = picture.window;
  const frame: Frame = { from, to, low: picture.low, high: picture.high, width: g.plotWidth, height: g.plotHeight };
  drawStack(pen, picture, g);
  for (const { kind, values } of linesOf(picture)) drawLine(pen, values, frame, g, inks.value[kind]);
  if (overlay.value) drawLine(pen, overlayValues(picture, overlay.value.points), frame, g, inks.value.accent);
  drawChart(pen, sceneOf(g, frame, picture));
}

function drawStack(pen: Pen, picture: Picture, g: Geometry): void {
  const { color } = itemColors(picture.items);
  const x = g.plotWidth / picture.window.width;
  const y = g.plotHeight / picture.window.height;
  for (const { item, left, right, bottom, top } of rectangles(picture)) {
    const place = [g.left + left * x, g.top + g.plotHeight - top * y, (right - left) * x, (top - bottom) * y] as const;
    pen.fill(...place, css(color[item]));
    if (picture.items.from[item] === 0) pen.hatch(...place, 'rgba(0, 0, 0, 0.18)');
  }
}

function drawLine(pen: Pen, values: Float64Array, frame: Frame, g: Geometry, color: string): void {
  let points: [number, number][] = [];
  const end = (x: number) => {
    const last = points.at(-1);
    if (last) pen.path([...points, [x, last[1]]], color, 1.5);
    points = [];
  };
  let before = NaN;
  values.forEach((value, i) => {
    const x = g.left + (i / values.length) * g.plotWidth;
    if (Number.isNaN(value)) end(x);
    else if (value !== before) {
      const last = points.at(-1);
      if (last) points.push([x, last[1]]);
      points.push([x, g.top + Math.min(Math.max(yOf(frame, value), 0), g.plotHeight)]);
    }
    before = value;
  });
  end(g.left + g.plotWidth);
}
