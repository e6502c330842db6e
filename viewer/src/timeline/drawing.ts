// The timeline as a drawing to save. It matches the screen; adjacent columns of one item become one rectangle.

import { geometryAround, type Geometry } from '../draw/geometry';
import { linesOf } from '../draw/hit';
import { itemColors } from '../draw/item-colors';
import { dashed, steps } from '../draw/paint';
import type { Pen } from '../draw/pen';
import { rectangles } from '../draw/rectangles';
import { shownPicture } from '../draw/shown';
import { numberAt } from '../numbers/at';
import { yOf, type Viewport } from '../numbers/scale';
import { framed, legendOf } from '../save/frame';
import type { Drawing } from '../save/picture';
import type { Picture } from '../source/source';
import { css } from '../style/colors';
import { inks } from '../style/theme';
import { drawChart } from './chart';
import { overlayLine, rowsAbove } from './model';
import { sceneOf } from './scene';

/** The most rows of regions. */
const BAND_ROWS = 4;

export function timelineDrawing(): Drawing {
  const picture = shownPicture.value?.picture;
  if (!picture) throw new Error('nothing is drawn yet');
  const [width, height] = [picture.window.width / devicePixelRatio, picture.window.height / devicePixelRatio];
  const around = geometryAround(width, height, rowsAbove(BAND_ROWS));
  const { ground } = inks.value;
  const drawing = { width: around.width, height: around.height, ground, draw: (pen: Pen) => draw(pen, picture, around) };
  const { stacked, axis } = picture.window;
  const shows = stacked === 'reserved' ? 'reserved ranges' : `live allocations by ${stacked} bytes`;
  const scale = `Vertical: bytes. Horizontal: ${axis === 'time' ? 'time since the first event' : 'events'}.`;
  return framed(drawing, shows, scale, legendOf(stacked === 'reserved'));
}

function draw(pen: Pen, picture: Picture, g: Geometry): void {
  const { from, to } = picture.window;
  const viewport: Viewport = { from, to, low: picture.low, high: picture.high, width: g.plotWidth, height: g.plotHeight };
  drawStack(pen, picture, g);
  const line = (values: Float64Array, color: string, apart: boolean) => {
    for (const points of steps(values, apart)) {
      const place = ([x, value]: readonly [number, number]) =>
        [g.left + (x / values.length) * g.plotWidth, g.top + Math.min(Math.max(yOf(viewport, value), 0), g.plotHeight)] as const;
      pen.path(points.map(place), color, 1.5);
    }
  };
  for (const { kind, values, apart } of linesOf(picture)) line(values, inks.value[kind], apart);
  const overlaid = overlayLine(picture);
  if (overlaid) line(dashed(overlaid), inks.value.accent, false);
  drawChart(pen, sceneOf(g, viewport, picture));
}

function drawStack(pen: Pen, picture: Picture, g: Geometry): void {
  const { color } = itemColors(picture);
  const x = g.plotWidth / picture.window.width;
  const y = g.plotHeight / picture.window.height;
  for (const { item, left, right, bottom, top } of rectangles(picture)) {
    const place = [g.left + left * x, g.top + g.plotHeight - top * y, (right - left) * x, (top - bottom) * y] as const;
    pen.fill(...place, css(numberAt(color, item)));
    if (picture.items.from[item] === 0) pen.hatch(...place, 'rgba(0, 0, 0, 0.18)');
  }
}
