// Pointer and wheel gestures on the timeline.

import { effect, signal } from '@preact/signals';
import { BAND_ROW, regionRow, type Geometry } from '../draw/geometry';
import { itemAt, momentAt, momentsBetween } from '../draw/hit';
import { noteAt, placedNotes } from './note-shapes';
import { shownPicture } from '../draw/shown';
import { phaseAt } from '../draw/phase-row';
import { stepAt } from './step-row';
import { numberAt } from '../numbers/at';
import { atOf, bytesOf, type Range, type Viewport } from '../numbers/scale';
import { spanAt } from '../numbers/spans';
import { zoomToSelected } from '../search/found';
import { NONE, type Note, type Picture } from '../source/source';
import { moment } from '../state/moment';
import { chooseMoment, fit, pan, panBytes, showSelected, zoom, zoomBytes } from '../state/moves';
import { showNote } from '../state/notes';
import { regions, showRegion } from '../state/regions';
import { selected } from '../state/selection';
import { chooseInterval, interval } from '../state/interval';
import { phases, showPhase } from '../state/phases';
import { showStep, steps } from '../state/steps';
import { axis, byteRange } from '../state/window';

/** The target under the pointer: a point of the plot, a note, a region, a phase, a step, the axis of bytes, the other axis, or nothing. */
export type PointerTarget =
  | { kind: 'plot'; picture: Picture; column: number; item: number | null; moment: number }
  | { kind: 'note'; note: Note }
  | { kind: 'region'; region: number }
  | { kind: 'phase'; phase: number }
  | { kind: 'step'; step: number }
  | { kind: 'bytes' }
  | { kind: 'axis' }
  | null;

export interface Hover {
  target: NonNullable<PointerTarget>;
  x: number;
  clientX: number;
  clientY: number;
}

/** The canvas under the pointer, and the callbacks that show its effects. */
export interface Surface {
  canvas: HTMLCanvasElement;
  geometry(): Geometry;
  viewport(): Viewport | null;
  /** Receives the target: `x` is the position in the canvas, `clientX` and `clientY` in the window. */
  hovered(hover: Hover | null): void;
  /** Shows the part being chosen, in CSS pixels of the canvas; null: none. */
  choosing(ends: [number, number] | null): void;
}

/** A press that moves fewer CSS pixels than this is a click. */
const CLICK_DISTANCE = 4;
/** The cursor for each kind of target. */
const CURSORS = {
  plot: '',
  note: 'pointer',
  region: 'pointer',
  phase: 'pointer',
  step: 'pointer',
  bytes: 'ns-resize',
  axis: 'col-resize',
} as const;
/** CSS pixels per line, for mice that scroll by lines. */
const LINE_HEIGHT = 16;

function targetAt(surface: Surface, x: number, y: number): PointerTarget {
  const viewport = surface.viewport();
  const picture = shownPicture.value?.picture;
  if (!viewport || !picture) return null;
  const g = surface.geometry();
  const inX = x >= g.left && x < g.left + g.plotWidth;
  const down = y - g.top;
  if (x < g.left && down >= 0 && down < g.plotHeight) return { kind: 'bytes' };
  if (!inX) return null;
  const at = atOf(viewport, x - g.left);
  if (g.stepTop !== null && y >= g.stepTop && down < 0) {
    const step = steps.value && stepAt(steps.value, axis.value, viewport, at);
    return step === null ? null : { kind: 'step', step };
  }
  if (g.phaseTop !== null && y >= g.phaseTop && down < 0) {
    const phase = phases.value && phaseAt(phases.value, axis.value, viewport, at);
    return phase === null ? null : { kind: 'phase', phase };
  }
  if (y >= g.bandTop && down < 0) {
    const row = regions.value && regionRow(regions.value, axis.value, Math.floor((y - g.bandTop) / BAND_ROW));
    const region = row && spanAt(row, viewport, at);
    return region === null ? null : { kind: 'region', region };
  }
  if (y >= g.noteTop && down < 0) {
    const placed = placedNotes(picture, viewport, g.noteRows);
    const found = noteAt(placed, Math.floor((y - g.noteTop) / BAND_ROW), x - g.left);
    return found && { kind: 'note', note: found };
  }
  if (down >= g.plotHeight) return { kind: 'axis' };
  if (down < 0) return null;
  const bytes = bytesOf(viewport, down);
  // The picture may be older than the viewport, so use its own window for column and row.
  const { window, low, high } = picture;
  const column = Math.floor(((at - window.from) / (window.to - window.from)) * window.width);
  if (column < 0 || column >= window.width || picture.column[column] === NONE) return null;
  const row = Math.floor(((bytes - low) / (high - low)) * window.height);
  return { kind: 'plot', picture, column, item: itemAt(picture, column, row), moment: momentAt(picture, column) };
}

/** Listens to pointer and wheel until the returned function is called. */
export function listen(surface: Surface): () => void {
  const { canvas } = surface;
  const listeners = new AbortController();
  const until = { signal: listeners.signal };
  let drag: { kind: 'pan' | 'choose' | 'span' | 'bytes'; startX: number; x: number; y: number; moved: number } | null = null;

  // Measured before a gesture, because measuring during one would force a layout at each step.
  const box = signal(canvas.getBoundingClientRect());
  const measure = () => void (box.value = canvas.getBoundingClientRect());
  canvas.addEventListener('pointerenter', measure, until);
  const observer = new ResizeObserver(measure);
  observer.observe(canvas);
  const place = (e: MouseEvent): [number, number] => [e.clientX - box.value.left, e.clientY - box.value.top];
  let before = { moment: moment.value, selected: selected.value, span: interval.value };
  let dragged = false;
  const perPixel = (viewport: Viewport) => (viewport.to - viewport.from) / viewport.width;

  // The pointer's resting position in the window; null once it has left, drags or turns the wheel.
  const rest = signal<Pick<MouseEvent, 'clientX' | 'clientY'> | null>(null);
  // A resting pointer gets a new target when another picture, or another part of it, is shown.
  const stopFollowing = effect(() => {
    if (!rest.value) return surface.hovered(null);
    const { clientX, clientY } = rest.value;
    const x = clientX - box.value.left;
    const target = targetAt(surface, x, clientY - box.value.top);
    canvas.style.cursor = target ? CURSORS[target.kind] : '';
    surface.hovered(target && { target, x, clientX, clientY });
  });

  canvas.addEventListener(
    'pointerdown',
    (e) => {
      if (e.button !== 0) return;
      measure();
      const [x, y] = place(e);
      const target = targetAt(surface, x, y);
      const kind = dragOf(e, target);
      drag = { kind, startX: x, x, y, moved: 0 };
      canvas.setPointerCapture(e.pointerId);
    },
    until,
  );

  canvas.addEventListener(
    'pointermove',
    (e) => {
      const viewport = surface.viewport();
      if (!drag || !viewport) return void (rest.value = e);
      const [x, y] = place(e);
      const [dx, dy] = [x - drag.x, y - drag.y];
      drag.moved += Math.abs(dx) + Math.abs(dy);
      drag.x = x;
      drag.y = y;
      if (drag.moved < CLICK_DISTANCE) return;
      rest.value = null;
      if (drag.kind === 'choose' || drag.kind === 'span') surface.choosing(ends(drag.startX, x));
      if (drag.kind === 'bytes') zoomBytes([viewport.low, viewport.high], Math.exp(-dy * 0.01), viewport.low);
      if (drag.kind === 'pan') {
        canvas.style.cursor = 'grabbing';
        pan(-dx * perPixel(viewport));
        if (byteRange.value) panBytes((dy * (viewport.high - viewport.low)) / viewport.height);
      }
    },
    until,
  );

  canvas.addEventListener(
    'pointerup',
    (e) => {
      const done = drag;
      drag = null;
      canvas.style.cursor = '';
      surface.choosing(null);
      const viewport = surface.viewport();
      dragged = done !== null && done.moved >= CLICK_DISTANCE;
      if (!viewport || !dragged || (done?.kind !== 'choose' && done?.kind !== 'span')) return;
      const g = surface.geometry();
      const [left, right] = ends(done.startX, place(e)[0]);
      const chosen: Range = [atOf(viewport, left - g.left), atOf(viewport, right - g.left)];
      if (done.kind === 'choose') showSelected(chosen);
      else if (shownPicture.value) chooseInterval(momentsBetween(shownPicture.value.picture, chosen));
    },
    until,
  );

  canvas.addEventListener(
    'click',
    (e) => {
      // The second click of a double click chooses nothing; the double click then undoes the first click's choice.
      if (e.detail > 1) return;
      before = { moment: moment.value, selected: selected.value, span: interval.value };
      if (dragged) return;
      click(targetAt(surface, ...place(e)));
      // The tooltip would cover the chosen block; it returns when the pointer moves.
      rest.value = null;
    },
    until,
  );

  canvas.addEventListener(
    'pointercancel',
    () => {
      drag = null;
      surface.choosing(null);
    },
    until,
  );
  canvas.addEventListener('pointerleave', () => (rest.value = null), until);

  canvas.addEventListener(
    'dblclick',
    (e) => {
      const target = targetAt(surface, ...place(e));
      [moment.value, selected.value, interval.value] = [before.moment, before.selected, before.span];
      const id = blockOf(target);
      // A double click on a block zooms to it, and a second one on the same block shows everything.
      if (id !== null && !(selected.value === id && byteRange.value)) {
        selected.value = id;
        zoomToSelected();
      } else if (target?.kind === 'bytes') byteRange.value = null;
      else fit();
    },
    until,
  );

  canvas.addEventListener(
    'wheel',
    (e) => {
      const viewport = surface.viewport();
      if (!viewport) return;
      e.preventDefault();
      const unit = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_HEIGHT : 1;
      const [dx, dy] = [e.deltaX * unit, e.deltaY * unit];
      const [x, y] = place(e);
      const g = surface.geometry();
      const onBytes = targetAt(surface, x, y)?.kind === 'bytes';
      if (e.shiftKey || onBytes) {
        // Browsers turn a wheel with Shift sideways.
        zoomBytes([viewport.low, viewport.high], Math.exp((dy || dx) * 0.002), Math.max(bytesOf(viewport, y - g.top), 0));
      } else if (Math.abs(dx) > Math.abs(dy) && !e.ctrlKey) {
        pan(dx * perPixel(viewport));
      } else {
        // A pinch on a trackpad is a wheel with Ctrl, in smaller steps.
        zoom(Math.exp(dy * (e.ctrlKey ? 0.01 : 0.002)), atOf(viewport, Math.min(Math.max(x - g.left, 0), g.plotWidth)));
      }
      // The picture moves under the pointer.
      rest.value = null;
    },
    { ...until, passive: false },
  );

  function ends(a: number, b: number): [number, number] {
    const { left, plotWidth } = surface.geometry();
    const inside = (x: number) => Math.min(Math.max(x, left), left + plotWidth);
    return [inside(Math.min(a, b)), inside(Math.max(a, b))];
  }

  return () => {
    stopFollowing();
    listeners.abort();
    observer.disconnect();
  };
}

/** Returns the kind of drag that this press begins. */
function dragOf(e: PointerEvent, target: PointerTarget): 'pan' | 'choose' | 'span' | 'bytes' {
  if (e.altKey) return 'choose';
  if (target?.kind === 'bytes') return 'bytes';
  return e.shiftKey || target?.kind === 'axis' ? 'span' : 'pan';
}

/** Returns the allocation under the pointer; null if there is none. Reserved ranges are not allocations: they have no details. */
function blockOf(target: PointerTarget): number | null {
  if (target?.kind !== 'plot' || target.item === null || target.picture.window.stacked === 'reserved') return null;
  return numberAt(target.picture.items.id, target.item);
}

function click(target: PointerTarget): void {
  if (target?.kind === 'note') {
    showNote(target.note);
  } else if (target?.kind === 'region') {
    showRegion(target.region);
  } else if (target?.kind === 'phase') {
    showPhase(target.phase);
  } else if (target?.kind === 'step') {
    showStep(target.step);
  } else if (target?.kind === 'plot') {
    chooseMoment(target.moment);
    if (target.picture.window.stacked !== 'reserved') selected.value = blockOf(target);
  }
}
