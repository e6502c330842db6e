import type { Pen } from '../../../draw/pen';
import { textWidth, type Font } from '../../../draw/text-width';
import { numberAt } from '../../../numbers/at';
import { firstThat } from '../../../numbers/bisect';
import type { Layout, PoolCourse } from '../../../source/source';
import { css, mix, parse, type Rgb } from '../../../style/colors';
import type { Token } from '../../../style/theme';
import { bytes, count } from '../../../text/units';
import { corners } from '../../../parts/sparkline';
import {
  BAR,
  HEADING,
  POOL_TITLE,
  piecesBetween,
  spans,
  type Arrangement,
  type Envelope,
  type MapGroup,
  type Piece,
} from './arrange';

export interface MapScene {
  layout: Layout;
  arrangement: Arrangement;
  width: number;
  inks: Record<Token, string>;
  /** Returns the color of a block. */
  color: (block: number) => Rgb;
  /** The pools of the recording, with their reserved bytes over time; the last moment, and the chosen pool. */
  pools: { courses: readonly PoolCourse[]; end: number; chosen: readonly number[] | null };
  /** Address ranges to outline. */
  outlined: readonly { address: number; bytes: number; ink: Token }[];
}

/** How much background is mixed into the rounding part of a block. */
const ROUNDING_FADE = 0.62;
/** Bars wider than this many CSS pixels have a gap or a border between them. */
const SEPARATED_FROM = 4;

/** Draws the part between two heights of the map, with `top` at the upper edge of the drawing. */
export function drawMap(pen: Pen, scene: MapScene, top: number, bottom: number): void {
  const { arrangement, layout, inks, width } = scene;
  for (const envelope of arrangement.envelopes) {
    if (envelope.bottom > top && envelope.top < bottom) drawEnvelope(pen, envelope, top, scene);
  }
  for (const group of arrangement.groups) {
    if (group.top + HEADING > top && group.top < bottom) drawHeading(pen, group, group.top - top, width, scene);
  }
  const pieces = piecesBetween(arrangement, top, bottom);
  for (const piece of pieces) {
    pen.fill(piece.x, piece.y - top, piece.width, BAR, inks.free);
    drawBlocks(pen, scene, piece, top);
    if (piece.width > SEPARATED_FROM) pen.outline(piece.x, piece.y - top, piece.width, BAR, inks.line);
  }
  for (const { address, bytes: size, ink } of scene.outlined) {
    for (const piece of pieces) {
      const start = numberAt(layout.segments.address, piece.segment);
      for (const s of spans([piece], address - start, address - start + size)) {
        const [x, w] = s.width < 5 ? [s.x + s.width / 2 - 2.5, 5] : [s.x, s.width];
        pen.outline(x - 1, s.y - top - 1, w + 2, BAR + 2, inks[ink], 2);
      }
    }
  }
}

function drawBlocks(pen: Pen, scene: MapScene, piece: Piece, top: number): void {
  const { layout, arrangement, inks } = scene;
  const { address, bytes: sizes, requested, pending, preexisting } = layout.blocks;
  const start = numberAt(layout.segments.address, piece.segment);
  const scale = piece.width / (piece.to - piece.from);
  const y = piece.y - top;
  const ground = parse(inks.free);
  const end = numberAt(arrangement.blocks, piece.segment + 1);
  for (let b = firstBlock(scene, piece); b < end; b++) {
    const from = numberAt(address, b) - start;
    if (from >= piece.to) break;
    const to = from + numberAt(sizes, b);
    const left = piece.x + (Math.max(from, piece.from) - piece.from) * scale;
    const right = piece.x + (Math.min(to, piece.to) - piece.from) * scale;
    const gap = right - left > SEPARATED_FROM ? 1 : 0;
    const width = right - left - gap;
    if (pending[b]) {
      pen.hatch(left, y, width, BAR, inks.bad);
      if (gap) pen.outline(left, y, width, BAR, inks.bad);
      continue;
    }
    const color = scene.color(b);
    pen.fill(left, y, width, BAR, css(color));
    const asked = piece.x + (Math.max(from + numberAt(requested, b), piece.from) - piece.from) * scale;
    if (preexisting[b]) pen.hatch(left, y, width, BAR, inks.text);
    if (right - asked > 0.5) pen.fill(asked, y, Math.max(left + width - asked, 0.5), BAR, css(mix(color, ground, ROUNDING_FADE)));
  }
}

/** Returns the first block of a segment that reaches into a piece. */
function firstBlock({ layout, arrangement }: MapScene, piece: Piece): number {
  const { address, bytes: sizes } = layout.blocks;
  const at = numberAt(layout.segments.address, piece.segment) + piece.from;
  return firstThat(
    numberAt(arrangement.blocks, piece.segment),
    numberAt(arrangement.blocks, piece.segment + 1),
    (b) => numberAt(address, b) + numberAt(sizes, b) > at,
  );
}

/** Returns the text of a group's sums, for its heading. */
export function groupFacts(g: MapGroup): string {
  const facts = [
    `${bytes(g.reserved)} reserved`,
    `${bytes(g.allocated)} allocated`,
    `${bytes(g.free)} free`,
    `largest free ${bytes(g.largestFree)}`,
    `${count(g.segments)} ${g.segments === 1 ? 'segment' : 'segments'}`,
  ];
  if (g.pending > 0) facts.splice(2, 0, `${bytes(g.pending)} pending`);
  return facts.join('   ');
}

const TITLE: Font = { family: 'sans', size: 12, bold: true };

/** The size of the line of a pool's reserved bytes. */
const [COURSE_WIDTH, COURSE_HEIGHT] = [120, 18];

/** Draws a pool's outline, with its name, its kind, and its reserved bytes over time. */
function drawEnvelope(
  pen: Pen,
  { pool, label, top: from, bottom }: Envelope,
  top: number,
  { inks, width, pools }: MapScene,
): void {
  const y = from - top;
  const isChosen = pools.chosen?.join() === pool.join();
  pen.outline(0, y, width, bottom - from, isChosen ? inks.accent : inks.quiet, isChosen ? 2 : 1);
  const course = pools.courses.find((one) => one.pool?.join() === pool.join());
  const room = width - COURSE_WIDTH - 24;
  pen.text(8, y + POOL_TITLE / 2, label, { ...TITLE, color: inks.text, room });
  if (!course) return;
  const left = textWidth(label, TITLE) + 22;
  const told = `${course.kind ? `${course.kind.replaceAll('`', '')}   ` : ''}at most ${bytes(course.peak_reserved)} reserved`;
  if (room - left > 60) pen.text(left, y + POOL_TITLE / 2, told, { color: inks.quiet, size: 11.5, room: room - left });
  const line = corners({ points: course.points, end: pools.end, high: course.peak_reserved }, COURSE_WIDTH, COURSE_HEIGHT);
  const [x, upper] = [width - COURSE_WIDTH - 8, y + (POOL_TITLE - COURSE_HEIGHT) / 2];
  if (room > 0 && line.length > 0)
    pen.path(
      line.map(([dx, dy]) => [x + dx, upper + dy] as const),
      inks.reserved,
      1.5,
    );
}

function drawHeading(pen: Pen, group: MapGroup, y: number, end: number, { inks, arrangement }: MapScene): void {
  const middle = y + HEADING / 2;
  const isInside = arrangement.envelopes.length > 0 && group.pool !== null;
  const label = isInside ? group.short : group.label;
  const width = end - group.x;
  pen.text(group.x, middle, label, { ...TITLE, bold: !isInside, color: inks.text, room: width });
  const left = group.x + textWidth(label, TITLE) + 18;
  if (end - left > 80) pen.text(left, middle, groupFacts(group), { color: inks.quiet, size: 11.5, room: end - left });
}
