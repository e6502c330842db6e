// The timeline as a drawing to save: what the screen shows, with neighbouring columns of an item as one rectangle.

import { css } from '../colors';
import type { Pen } from '../parts/pen';
import type { Drawing } from '../save/picture';
import { inks } from '../shell/theme';
import { KINDS, NONE, type Picture } from '../source/source';
import { drawChart } from './chart';
import { bandRowsOf, geometry, type Geometry } from './geometry';
import { overlayValues } from './hit';
import { paintsOf, regions, shown } from './model';
import { overlay } from './overlay';
import { yOf, type Frame } from './scale';
import { sceneOf } from './scene';

export function timelineDrawing(): Drawing {
  const picture = shown.value?.picture;
  if (!picture) throw new Error('nothing is drawn yet');
  // The picture's own size, with the same room around it as on the screen.
  const bare = geometry(0, 0, bandRowsOf(regions.value, 4), 1);
  const { width, height } = picture.window;
  const sized = geometry(width / devicePixelRatio, height / devicePixelRatio, bare.bandRows, 1);
  const room: Geometry = { ...sized, plotWidth: width / devicePixelRatio, plotHeight: height / devicePixelRatio };
  const whole: Geometry = { ...room, width: room.left + room.plotWidth + 20, height: room.top + room.plotHeight + 22 };
  return {
    width: whole.width,
    height: whole.height,
    ground: inks.value.ground,
    draw: (pen) => draw(pen, picture, whole),
  };
}

function draw(pen: Pen, picture: Picture, g: Geometry): void {
  const { from, to } = picture.window;
  const frame: Frame = { from, to, low: picture.low, high: picture.high, width: g.plotWidth, height: g.plotHeight };
  drawStack(pen, picture, g);
  for (const kind of KINDS) {
    if (kind !== 'active' && kind !== 'reserved') continue;
    if (kind !== picture.window.stacked) drawLine(pen, picture.highest[kind], frame, g, inks.value[kind]);
  }
  if (overlay.value) drawLine(pen, overlayValues(picture, overlay.value.points), frame, g, inks.value.accent);
  drawChart(pen, sceneOf(g, frame, picture));
}
