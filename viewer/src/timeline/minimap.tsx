// The minimap: the whole recording, with a brush over the part that the timeline shows. It has the bytes of each category, or the
// timeline's own picture as long as categories are unknown.

import { effect, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { currentPaints } from '../draw/item-colors';
import { paintLine, paintStack } from '../draw/paint';
import { clamped, type Range } from '../numbers/scale';
import { useSize } from '../parts/size';
import { onlyQuery } from '../search/found';
import { asked } from '../state/asked';
import { show, showSelected } from '../state/moves';
import { tellsCategories } from '../state/grouping';
import { device, file } from '../state/place';
import { current, source } from '../state/recordings';
import { axis, shownRange, stacked, whole } from '../state/window';
import { abgr, parse } from '../style/colors';
import { inks } from '../style/theme';
import { CategoryBands, type BandsHover } from './bands';

const size = signal({ width: 0, height: 0 });

/** The picture. It does not depend on the shown part, and is requested again only if something else changes. */
const picture = asked((unwanted) => {
  const { width, height } = size.value;
  if (!current.value || width === 0 || height === 0) return null;
  return source.picture(
    file.value,
    device.value,
    {
      stacked: stacked.value,
      axis: axis.value,
      from: whole.value[0],
      to: whole.value[1],
      width,
      height,
      low: 0,
      high: null,
      fit_reserved: true,
      only: stacked.value === 'reserved' ? null : onlyQuery.value,
    },
    unwanted,
  );
});

/** The distance in CSS pixels within which the pointer grabs an end of the brush. */
const GRIP = 5;
/** A press that moves fewer CSS pixels than this is a click. */
const CLICK = 3;

export function Minimap() {
  const [box, { width }] = useSize<HTMLDivElement>();
  const [hover, setHover] = useState<BandsHover | null>(null);
  const move = (e: PointerEvent) => {
    const bounds = (e.currentTarget as HTMLElement).getBoundingClientRect();
    // No tooltip while the brush is moved.
    setHover(e.buttons === 0 ? { x: e.clientX - bounds.left, clientX: e.clientX, clientY: e.clientY } : null);
  };
  const [from, to] = whole.value;
  const place = (at: number) => ((at - from) / (to - from)) * width;
  const left = place(shownRange.value[0]);
  const right = Math.max(place(shownRange.value[1]), left + 2);
  return (
    <div class="minimap-row">
      <span class="minimap-label">recording</span>
      <div
        ref={box}
        class="minimap"
        title="The whole recording: drag to choose the part that the timeline shows"
        onPointerDown={(e) => grab(e, width)}
        onPointerMove={move}
        onPointerLeave={() => setHover(null)}
      >
        {tellsCategories(current.value) ? <CategoryBands hover={hover} /> : <SmallPicture />}
        <div class="minimap-hidden" style={{ left: 0, width: `${Math.max(left, 0)}px` }} />
        <div class="minimap-hidden" style={{ left: `${right}px`, width: `${Math.max(width - right, 0)}px` }} />
        <div class="minimap-brush" style={{ left: `${left}px`, width: `${right - left}px` }} />
      </div>
    </div>
  );
}

/** The timeline's picture of the whole recording. */
function SmallPicture() {
  const [box, { width, height }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    size.value = { width: Math.round(width * devicePixelRatio), height: Math.round(height * devicePixelRatio) };
    return () => void (size.value = { width: 0, height: 0 });
  }, [width, height]);
  useEffect(
    () =>
      effect(() => {
        const all = picture.value;
        const target = canvas.current;
        if (!all || !target) return;
        const { width, height } = all.window;
        target.width = width;
        target.height = height;
        const pixels = new Uint32Array(width * height);
        paintStack(pixels, all, currentPaints(all));
        const line = { values: all.highest.reserved, color: abgr(parse(inks.value.reserved)), thickness: 1, dashed: false };
        if (all.window.stacked !== 'reserved') paintLine(pixels, all, line);
        target.getContext('2d')!.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
      }),
    [],
  );
  return (
    <div ref={box} class="minimap-picture">
      <canvas ref={canvas} role="img" aria-label="The whole recording" />
    </div>
  );
}

/** Moves the brush, or one end of it, or chooses a new part, until the pointer is released. */
function grab(e: PointerEvent, width: number): void {
  if (e.button !== 0) return;
  const box = e.currentTarget as HTMLElement;
  const bounds = box.getBoundingClientRect();
  const [from, to] = whole.value;
  const atOf = (x: number) => from + (Math.min(Math.max(x - bounds.left, 0), width) / width) * (to - from);
  const start = shownRange.value;
  const slack = (GRIP / width) * (to - from);
  const first = atOf(e.clientX);
  const all = start[0] <= from && start[1] >= to;
  const fixed = all
    ? first
    : Math.abs(first - start[0]) < slack
      ? start[1]
      : Math.abs(first - start[1]) < slack
        ? start[0]
        : null;
  const moving = !all && fixed === null && first > start[0] && first < start[1];
  const ordered = (a: number, b: number): Range => (a < b ? [a, b] : [b, a]);

  box.setPointerCapture(e.pointerId);
  const move = (m: PointerEvent) => {
    if (Math.abs(m.clientX - e.clientX) < CLICK) return;
    const at = atOf(m.clientX);
    if (moving) show([start[0] + at - first, start[1] + at - first]);
    else showSelected(ordered(fixed ?? first, at));
  };
  const end = (m: PointerEvent) => {
    box.removeEventListener('pointermove', move);
    box.removeEventListener('pointerup', end);
    box.removeEventListener('pointercancel', end);
    // A click beside the brush moves it there.
    if (m.type === 'pointerup' && !moving && !all && Math.abs(m.clientX - e.clientX) < CLICK) {
      const half = (start[1] - start[0]) / 2;
      show(clamped([first - half, first + half], whole.value));
    }
  };
  box.addEventListener('pointermove', move);
  box.addEventListener('pointerup', end);
  box.addEventListener('pointercancel', end);
}
