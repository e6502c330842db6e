// The outlines of steps as a drawing to save.

import { steps as linesThrough } from '../../draw/paint';
import type { Pen } from '../../draw/pen';
import { byteTicks, eventTicks, timeTicks } from '../../draw/ticks';
import type { Range } from '../../numbers/scale';
import { framed } from '../../save/frame';
import type { Drawing } from '../../save/picture';
import type { Axis } from '../../source/source';
import { parse } from '../../style/colors';
import { inks } from '../../style/theme';
import { bytes } from '../../text/units';
import type { Outline } from './lines';

/** The outlines, and the plot that shows them. */
export interface Drawn {
  outlines: readonly (Outline | null)[];
  colors: readonly string[];
  titles: readonly string[];
  width: number;
  height: number;
  common: Range;
  over: Axis;
}

/** The space around the plot, in CSS pixels. */
export const [LEFT, RIGHT, TOP, BOTTOM] = [78, 12, 8, 24];
const HEADROOM = 1.04;
const SMALL = 11;

/** Returns the bytes at the top of the plot. */
export function highOf(outlines: Drawn['outlines']): number {
  const peak = (outline: Outline | null) => outline?.values.reduce((a, b) => (b > a ? b : a), 0) ?? 0;
  return Math.max(1, ...outlines.map(peak)) * HEADROOM;
}

/** Returns the ticks of the axis below the plot. */
export const ticksOf = ({ over, common: [from, to], width }: Pick<Drawn, 'over' | 'common' | 'width'>) =>
  over === 'time' ? timeTicks(from, to, width / 110) : eventTicks(from, to, width / 110);

export function stepsDrawing(drawn: Drawn, aligned: string): Drawing {
  const { colors, titles, outlines, width, height } = drawn;
  const entries = titles.map((label, i) => {
    const peak = outlines[i]?.values.reduce((a, b) => (b > a ? b : a), 0);
    return { color: parse(colors[i]!), label, held: peak === undefined ? '' : `peak ${bytes(peak)}` };
  });
  const drawing = { width: width + LEFT + RIGHT, height, ground: inks.value.ground, draw: (pen: Pen) => draw(pen, drawn) };
  const scale = `Vertical: bytes. Horizontal: ${drawn.over === 'time' ? 'time' : 'events'} from ${aligned}.`;
  return framed(drawing, 'allocated bytes of steps', scale, { title: 'Steps:', entries });
}

function draw(pen: Pen, drawn: Drawn): void {
  const { outlines, colors, width, height, common } = drawn;
  const { quiet, line } = inks.value;
  const [from, to] = common;
  const tall = Math.max(height - TOP - BOTTOM, 1);
  const high = highOf(outlines);
  const y = (n: number) => TOP + (1 - n / high) * tall;
  const x = (at: number) => LEFT + ((at - from) / (to - from)) * width;
  for (const tick of byteTicks(0, high, tall / 34)) {
    pen.fill(LEFT, y(tick.at), width, 0.5, line);
    pen.text(LEFT - 8, y(tick.at), tick.label, { color: quiet, align: 'right', size: SMALL });
  }
  for (const tick of ticksOf(drawn)) {
    pen.text(Math.min(x(tick.at), LEFT + width - 16), TOP + tall + 14, tick.label, {
      color: quiet,
      align: 'center',
      size: SMALL,
    });
  }
  pen.fill(x(0), TOP, 1, tall, quiet);
  outlines.forEach((outline, i) => {
    if (!outline) return;
    for (const points of linesThrough(outline.values, false)) {
      pen.path(
        points.map(([at, value]) => [LEFT + outline.left + at, y(value)] as const),
        colors[i]!,
        1.75,
      );
    }
  });
}
