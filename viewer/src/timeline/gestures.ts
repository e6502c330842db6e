// Pointer and wheel on the timeline.

import { BAND_ROW, regionAt, regionEnds, type Geometry } from '../draw/geometry';
import { itemAt, momentAt } from '../draw/hit';
import { shown } from '../draw/shown';
import { numberAt } from '../numbers/at';
import { atOf, bytesOf, type Frame } from '../numbers/scale';
import { NONE, type Picture } from '../source/source';
import { moment } from '../state/moment';
import { chooseMoment, fit, pan, panBytes, showSelected, zoom, zoomBytes } from '../state/moves';
import { selected } from '../state/selection';
import { axis, span } from '../state/window';
import { regions } from './model';

/** What the pointer is on. */
export type Under =
  | { kind: 'plot'; picture: Picture; column: number; item: number | null; moment: number }
  | { kind: 'region'; region: number }
  | { kind: 'bytes' }
  | null;

export interface Hover {
  under: NonNullable<Under>;
  x: number;
  clientX: number;
  clientY: number;
}

export interface Surface {
  canvas: HTMLCanvasElement;
  geometry(): Geometry;
  frame(): Frame | null;
  /** Follows the pointer: `x` in the canvas, `clientX` and `clientY` in the window. */
  hovered(hover: Hover | null): void;
  /** Shows a choice under way, in CSS pixels of the canvas; null: none. */
  choosing(ends: [number, number] | null): void;
}

/** A shorter way than this is a click. */
const CLICK = 4;
const LINE = 16;

function underPointer(surface: Surface, x: number, y: number): Under {
  const frame = surface.frame();
  const picture = shown.value?.picture;
  if (!frame || !picture) return null;
  const g = surface.geometry();
  const inX = x >= g.left && x < g.left + g.plotWidth;
  const down = y - g.top;
  if (x < g.left && down >= 0 && down < g.plotHeight) return { kind: 'bytes' };
  if (!inX) return null;
  const at = atOf(frame, x - g.left);
  if (y >= g.bandTop && down < 0) {
    const row = Math.floor((y - g.bandTop) / BAND_ROW);
    const region = regions.value && regionAt(regions.value, axis.value, frame, at, row);
    return region === null ? null : { kind: 'region', region };
  }
  if (down < 0 || down >= g.plotHeight) return null;
  const bytes = bytesOf(frame, down);
  // By the picture's own window: it may lag behind the frame.
  const { window, low, high } = picture;
  const column = Math.floor(((at - window.from) / (window.to - window.from)) * window.width);
  if (column < 0 || column >= window.width || picture.column[column] === NONE) return null;
  const row = Math.floor(((bytes - low) / (high - low)) * window.height);
  return { kind: 'plot', picture, column, item: itemAt(picture, column, row), moment: momentAt(picture, column) };
}

export function listen(surface: Surface): () => void {
  const { canvas } = surface;
  const listeners = new AbortController();
  const { signal } = listeners;
  let drag: { kind: 'pan' | 'choose' | 'bytes'; startX: number; x: number; y: number; moved: number } | null = null;

  // Measured where a gesture may begin: in the midst of one it would lay the page out anew.
  let box = canvas.getBoundingClientRect();
  const measure = () => (box = canvas.getBoundingClientRect());
  canvas.addEventListener('pointerenter', measure, { signal });
  const observer = new ResizeObserver(measure);
  observer.observe(canvas);
  const place = (e: MouseEvent): [number, number] => [e.clientX - box.left, e.clientY - box.top];
  let before = { moment: moment.value, selected: selected.value };
  let dragged = false;
  const perPixel = (frame: Frame) => (frame.to - frame.from) / frame.width;

  canvas.addEventListener(
    'pointerdown',
    (e) => {
      if (e.button !== 0) return;
      measure();
      const [x, y] = place(e);
      const under = underPointer(surface, x, y);
      const kind = e.altKey ? 'choose' : under?.kind === 'bytes' ? 'bytes' : 'pan';
      drag = { kind, startX: x, x, y, moved: 0 };
      canvas.setPointerCapture(e.pointerId);
    },
    { signal },
  );

  canvas.addEventListener(
    'pointermove',
    (e) => {
      const [x, y] = place(e);
      const frame = surface.frame();
      if (!drag || !frame) {
        const under = underPointer(surface, x, y);
        canvas.style.cursor = under?.kind === 'bytes' ? 'ns-resize' : under?.kind === 'region' ? 'pointer' : '';
        surface.hovered(under && { under, x, clientX: e.clientX, clientY: e.clientY });
        return;
      }
      const [dx, dy] = [x - drag.x, y - drag.y];
      drag.moved += Math.abs(dx) + Math.abs(dy);
      drag.x = x;
      drag.y = y;
      if (drag.moved < CLICK) return;
      surface.hovered(null);
      if (drag.kind === 'choose') surface.choosing(ends(drag.startX, x));
      if (drag.kind === 'bytes') zoomBytes([frame.low, frame.high], Math.exp(-dy * 0.01), frame.low);
      if (drag.kind === 'pan') {
        canvas.style.cursor = 'grabbing';
        pan(-dx * perPixel(frame));
        if (span.value) panBytes((dy * (frame.high - frame.low)) / frame.height);
      }
    },
    { signal },
  );

  canvas.addEventListener(
    'pointerup',
    (e) => {
      const done = drag;
      drag = null;
      canvas.style.cursor = '';
      surface.choosing(null);
      const frame = surface.frame();
      dragged = done !== null && done.moved >= CLICK;
      if (!frame || !dragged || done?.kind !== 'choose') return;
      const g = surface.geometry();
      const [left, right] = ends(done.startX, place(e)[0]);
      showSelected([atOf(frame, left - g.left), atOf(frame, right - g.left)]);
    },
    { signal },
  );

  canvas.addEventListener(
    'click',
    (e) => {
      // The second of a double click is no choice, and the first was none.
      if (e.detail > 1) return;
      before = { moment: moment.value, selected: selected.value };
      if (!dragged) click(underPointer(surface, ...place(e)));
    },
    { signal },
  );

  canvas.addEventListener(
    'pointercancel',
    () => {
      drag = null;
      surface.choosing(null);
    },
    { signal },
  );
  canvas.addEventListener('pointerleave', () => surface.hovered(null), { signal });

  canvas.addEventListener(
    'dblclick',
    (e) => {
      [moment.value, selected.value] = [before.moment, before.selected];
      if (underPointer(surface, ...place(e))?.kind === 'bytes') span.value = null;
      else fit();
    },
    { signal },
  );

  canvas.addEventListener(
    'wheel',
    (e) => {
      const frame = surface.frame();
      if (!frame) return;
      e.preventDefault();
      const unit = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
      const [dx, dy] = [e.deltaX * unit, e.deltaY * unit];
      const [x, y] = place(e);
      const g = surface.geometry();
      const onBytes = underPointer(surface, x, y)?.kind === 'bytes';
      if (e.shiftKey || onBytes) {
        // Browsers turn the wheel sideways while shift is held.
        zoomBytes([frame.low, frame.high], Math.exp((dy || dx) * 0.002), Math.max(bytesOf(frame, y - g.top), 0));
      } else if (Math.abs(dx) > Math.abs(dy) && !e.ctrlKey) {
        pan(dx * perPixel(frame));
      } else {
        // A pinch on a trackpad is a wheel with ctrl, in smaller steps.
        zoom(Math.exp(dy * (e.ctrlKey ? 0.01 : 0.002)), atOf(frame, Math.min(Math.max(x - g.left, 0), g.plotWidth)));
      }
      // What it was on has moved away.
      surface.hovered(null);
    },
    { signal, passive: false },
  );

  function ends(a: number, b: number): [number, number] {
    const { left, plotWidth } = surface.geometry();
    const inside = (x: number) => Math.min(Math.max(x, left), left + plotWidth);
    return [inside(Math.min(a, b)), inside(Math.max(a, b))];
  }

  return () => {
    listeners.abort();
    observer.disconnect();
  };
}

function click(under: Under): void {
  if (under?.kind === 'region' && regions.value) {
    showSelected(regionEnds(regions.value, under.region, axis.value));
  } else if (under?.kind === 'plot') {
    chooseMoment(under.moment);
    const { picture } = under;
    // Reserved ranges are no allocations: they have no details.
    if (picture.window.stacked === 'reserved') return;
    selected.value = under.item === null ? null : numberAt(picture.items.id, under.item);
  }
}
