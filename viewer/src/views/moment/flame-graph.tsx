import type { TargetedKeyboardEvent } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Pen } from '../../draw/pen';
import { colorKeys } from '../../draw/item-colors';
import { SaveMenu } from '../../save/menu';
import { framed } from '../../save/frame';
import { drawingItems } from '../../save/picture';
import { colorBy } from '../../state/grouping';
import { groupsBy } from '../../state/groups';
import { scope } from '../../state/place';
import { css, mix, parse, textColor, unknownColor } from '../../style/colors';
import { dark, inks } from '../../style/theme';
import { bytes, count, share, signedBytes } from '../../text/units';
import { Crumbs, type CallTreePart } from './call-part';
import type { Node } from '../../parts/calls';
import { Canvas } from '../../parts/canvas';
import { boxAt, layFlame, stepInTree, type Box } from './flame';
import { bringIntoSight, useSize } from '../../parts/size';
import { Facts, Tooltip } from '../../parts/tooltip';

/** Height of a row, and the least width of a box with text, in CSS pixels. */
const ROW = 20;
const TEXT_FROM = 24;

/** A call tree as an icicle: click or Enter zooms in, arrows move, Escape or Backspace zooms out. */
export function FlameGraph(p: CallTreePart) {
  const [box, { width, height }] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  const [hover, setHover] = useState<{ node: Node; x: number; y: number } | null>(null);
  const { zoomed, focused, zoom } = p;
  const boxes = useMemo(() => layFlame(zoomed, width > 0 ? 0.5 / width : 1), [zoomed, width]);
  const rows = boxes.reduce((most, b) => Math.max(most, b.depth), 0) + 1;
  const shown = Math.min(rows * ROW, height);
  useEffect(() => setHover(null), [p.root]);

  const draw = (pen: Pen, top: number, bottom: number) => drawFlame(pen, { ...p, boxes, width, focused }, top, bottom);
  const at = (e: MouseEvent): Node | null => {
    const r = (e.currentTarget as HTMLElement).getBoundingClientRect();
    return boxAt(boxes, (e.clientX - r.left) / width, Math.floor((e.clientY - r.top) / ROW))?.node ?? null;
  };
  /** The lower left corner of a node in the window. */
  const cornerOf = (node: Node, canvas: HTMLElement) => {
    const { left, top } = canvas.getBoundingClientRect();
    const x = boxes.find((one) => one.node === node)?.x ?? 0;
    return { x: left + x * width, y: top + (node.depth + 1) * ROW };
  };
  const move = (e: MouseEvent) => {
    const node = at(e);
    setHover(node && { node, x: e.clientX, y: e.clientY });
  };
  const keys = (e: TargetedKeyboardEvent<HTMLElement>) => {
    const from = focused ?? zoomed;
    const next = stepInTree(from, e.key);
    const { currentTarget } = e;
    const isShared = !next && p.press(e, from, () => cornerOf(from, currentTarget));
    if (next) p.focus(next);
    else if (e.key === 'Enter' || e.key === ' ') zoom(from);
    else if ((e.key === 'Escape' || e.key === 'Backspace') && zoomed.parent) zoom(zoomed.parent);
    else if (e.key === 'Home') zoom(p.root);
    // At the edge of the tree, an arrow key does nothing, here or elsewhere.
    else if (!isShared && !e.key.startsWith('Arrow')) return;
    e.preventDefault();
    e.stopPropagation();
    const { depth } = next ?? from;
    bringIntoSight(box.current, depth * ROW, (depth + 1) * ROW);
  };

  const items = drawingItems(() =>
    framed(
      { width, height: rows * ROW, ground: inks.value.ground, draw: (pen) => draw(pen, 0, rows * ROW) },
      p.shows,
      `The whole width is ${bytes(zoomed.bytes)}${p.compared ? `, was ${bytes(zoomed.before)}. Red grew, blue shrank` : ''}.`,
      null,
    ),
  );
  return (
    <section class="flame" aria-label={p.label}>
      <header class="table-head">
        <h3>{p.label}</h3>
        <Crumbs {...p} />
        <span class="spring" />
        {p.controls}
        <SaveMenu name={`flame-${p.moment}`} items={items} />
      </header>
      <div class="flame-box" ref={box} onScroll={(e) => setScrollTop(e.currentTarget.scrollTop)}>
        <div
          class="flame-canvas"
          style={{ height: `${rows * ROW}px` }}
          role="application"
          tabIndex={0}
          aria-label={`${p.label}: arrows walk the tree, Enter zooms, Escape zooms out, Shift F10 lists transforms`}
          onKeyDown={keys}
          onMouseMove={move}
          onMouseLeave={() => setHover(null)}
          onClick={(e) => {
            const node = at(e);
            if (node) zoom(node);
          }}
          onContextMenu={(e) => {
            const node = at(e);
            if (!node) return;
            e.preventDefault();
            setHover(null);
            p.openMenu(node, e.clientX, e.clientY);
          }}
        >
          <Canvas class="map-canvas" width={width} height={shown} draw={(pen) => draw(pen, scrollTop, scrollTop + shown)} />
        </div>
      </div>
      <p class="visually-hidden" aria-live="polite">
        {focused &&
          `${focused.label}, ${nodeFacts(focused, p)
            .map(([name, value]) => `${name} ${value}`)
            .join(', ')}`}
      </p>
      {hover && (
        <Tooltip x={hover.x} y={hover.y}>
          <p class="tooltip-title">{hover.node.label}</p>
          <Facts facts={nodeFacts(hover.node, p)} />
        </Tooltip>
      )}
    </section>
  );
}

function nodeFacts(node: Node, p: CallTreePart): [string, string][] {
  const facts: [string, string][] = [
    ['allocated', bytes(node.bytes)],
    [p.whole === undefined ? 'share' : 'of matches', share(node.bytes, p.root.bytes)],
    ...(p.whole === undefined ? [] : [['of all', share(node.bytes, p.whole)] as [string, string]]),
    ['blocks', count(node.count)],
  ];
  if (p.searched) facts.push(['found', `${bytes(node.found)}, ${share(node.found, node.bytes)} of it`]);
  if (p.compared) {
    facts.push(
      ['before', bytes(node.before)],
      ['change', signedBytes(node.bytes - node.before)],
      ['blocks before', count(node.countBefore)],
    );
  }
  return facts;
}

/** Returns a node's color: its frame's group if the colors are by frame, else its label's; nodes without a frame are gray. */
function plainColor(node: Node, isDark: boolean): number {
  if (node.frame === null) return unknownColor(isDark);
  const hue = groupsBy(colorBy.value)?.get(scope.value)?.frame[node.frame];
  return hue === undefined ? textColor(node.label, isDark) : colorKeys.value.color(hue);
}

/** Returns the color of a compared node: red if it grew, blue if it shrank, deeper for larger relative changes. */
function growthColor(node: Node, isDark: boolean): number {
  const ground = isDark ? 0x3a3f49 : 0xd9dde4;
  const most = Math.max(node.bytes, node.before);
  if (most === 0 || node.bytes === node.before) return ground;
  const part = Math.abs(node.bytes - node.before) / most;
  const end = node.bytes > node.before ? 0xe0604f : 0x4f8fe0;
  return mix(ground, end, 0.25 + 0.75 * part);
}

interface FlameScene extends CallTreePart {
  boxes: readonly Box[];
  width: number;
  focused: Node | null;
}

/** Draws the part between two heights of the graph, with `top` at the upper edge of the drawing. */
function drawFlame(pen: Pen, { boxes, width, focused, ...p }: FlameScene, top: number, bottom: number): void {
  const ink = inks.value;
  const isDark = dark.value;
  const ground = parse(ink.ground);
  for (const { node, x, width: part, depth } of boxes) {
    const y = depth * ROW - top;
    if (y + ROW <= 0 || y >= bottom - top) continue;
    const left = x * width;
    const w = part * width;
    const color = p.compared ? growthColor(node, isDark) : plainColor(node, isDark);
    const pale = mix(color, ground, 0.78);
    const gap = w > 3 ? 1 : 0;
    const found = !p.searched ? 1 : node.bytes === 0 ? 0 : node.found / node.bytes;
    if (found < 1) pen.fill(left, y, w - gap, ROW - 1, css(pale));
    if (found > 0) pen.fill(left, y, (w - gap) * found, ROW - 1, css(color));
    if (w >= TEXT_FROM) {
      pen.text(left + 5, y + (ROW - 1) / 2 + 0.5, node.label, {
        color: found === 1 ? onColor(color) : ink.text,
        size: 11.5,
        room: w - gap - 9,
        bold: p.searched && found > 0,
      });
    }
  }
  const focus = focused && boxes.find((b) => b.node === focused);
  if (focus) pen.outline(focus.x * width, focus.depth * ROW - top, Math.max(focus.width * width, 3), ROW - 1, ink.text, 2);
}

/** Returns black or white, whichever is more readable on a color. */
function onColor(color: number): string {
  const linear = (shift: number) => {
    const c = ((color >>> shift) & 0xff) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
  return luminance > 0.179 ? '#0b0d11' : '#ffffff';
}
