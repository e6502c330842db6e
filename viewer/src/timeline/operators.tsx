// Lanes with the operators, kernels and annotations of a trace, above the timeline and along its axis.

import { computed, signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { NOTHING_ABOVE, geometryIn } from '../draw/geometry';
import type { Pen } from '../draw/pen';
import { entryAt, numberAt } from '../numbers/at';
import { atOf, xOf, type Range, type Viewport } from '../numbers/scale';
import { Canvas } from '../parts/canvas';
import { useSize } from '../parts/size';
import { Facts, Tooltip } from '../parts/tooltip';
import type { OperatorLane, OperatorLanes, OperatorPicture } from '../source/source';
import { asked } from '../state/asked';
import { pan, zoom } from '../state/moves';
import { chooseOperator, operator, operatorEnds, operatorLanes, showOperator, showsOperators } from '../state/operators';
import { device, file } from '../state/place';
import { source } from '../state/recordings';
import { axis, shownRange } from '../state/window';
import { css, mix, parse, textColor } from '../style/colors';
import { dark, inks } from '../style/theme';
import { count, duration } from '../text/units';
import { tall } from './model';

/** Height of a row, and the gap between lanes, in CSS pixels. */
const ROW = 13;
const GAP = 3;
/** The rows of a folded and of an unfolded lane. */
const FOLDED = 3;
const UNFOLDED = 32;

/** The numbers of the unfolded lanes. */
const unfolded = signal<ReadonlySet<number>>(new Set());

interface LaidLane {
  lane: OperatorLane;
  rows: number;
  top: number;
  isUnfolded: boolean;
}

const laid = computed((): { lanes: LaidLane[]; height: number } => {
  let top = 0;
  const lanes = (operatorLanes.value?.lanes ?? []).map((lane) => {
    const isUnfolded = unfolded.value.has(lane.number);
    const rows = Math.min(lane.rows, isUnfolded ? UNFOLDED : FOLDED);
    const placed = { lane, rows, top, isUnfolded };
    top += rows * ROW + GAP;
    return placed;
  });
  return { lanes, height: top };
});

/** The width of the lanes in CSS pixels; 0 while they are hidden. */
const width = signal(0);

/** The spans in the shown part of the axis. */
const picture = asked((unwanted) => {
  if (!operatorLanes.value || !showsOperators.value || !tall.value || width.value <= 0) return null;
  const [from, to] = shownRange.value;
  const lanes = laid.value.lanes.map(({ lane, rows }): [number, number] => [lane.number, rows]);
  const window = { axis: axis.value, from, to, width: Math.round(width.value * devicePixelRatio), lanes };
  return source.ask(file.value, device.value, { question: 'operator_picture', ...window }, unwanted);
});

/** Returns the lane at a height. */
const laneAt = (y: number): LaidLane | null => laid.value.lanes.findLast(({ top }) => top <= y) ?? null;

/** Returns the ends of a span in CSS pixels from the left end of the lanes; at least a pixel wide. */
function placeOf(shown: OperatorPicture, i: number, viewport: Viewport): Range {
  const left = Math.max(xOf(viewport, numberAt(shown.from, i)), 0);
  const right = Math.min(Math.max(xOf(viewport, numberAt(shown.to, i)), left + 1), viewport.width);
  return [left, right];
}

/** Returns the position in the picture of the span at a point; null if there is none. */
function spanAt(shown: OperatorPicture, viewport: Viewport, x: number, y: number): number | null {
  const at = laneAt(y);
  if (!at) return null;
  const row = Math.floor((y - at.top) / ROW);
  let found: number | null = null;
  for (let i = 0; i < shown.span.length; i += 1) {
    if (shown.lane[i] !== at.lane.number || shown.row[i] !== row) continue;
    const [left, right] = placeOf(shown, i, viewport);
    if (left <= x + 1 && x <= right + 1) found = i;
  }
  return found;
}

function drawLanes(pen: Pen, shown: OperatorPicture | null, viewport: Viewport, left: number): void {
  const ink = inks.value;
  const ground = parse(ink.ground);
  const tops = new Map(laid.value.lanes.map(({ lane, top }) => [lane.number, top]));
  const sunken = css(mix(parse(ink.sunken), ground, 0.3));
  for (const { top, rows } of laid.value.lanes) pen.fill(left, top, viewport.width, rows * ROW, sunken);
  if (!shown) return;
  const colors = shown.names.map((name) => css(mix(textColor(name, dark.value), ground, 0.62)));
  for (let i = 0; i < shown.span.length; i += 1) {
    const top = tops.get(numberAt(shown.lane, i));
    if (top === undefined) continue;
    const [begin, end] = placeOf(shown, i, viewport);
    if (end <= begin) continue;
    const y = top + numberAt(shown.row, i) * ROW;
    const gap = end - begin > 3 ? 1 : 0;
    pen.fill(left + begin, y, end - begin - gap, ROW - 1, entryAt(colors, numberAt(shown.name, i)));
    const isChosen = operator.value?.[0] === shown.lane[i] && operator.value?.[1] === shown.span[i];
    if (isChosen) pen.outline(left + begin - 1, y - 1, Math.max(end - begin, 3) + 2, ROW + 1, ink.text, 2);
    if (end - begin > 24) {
      const name = entryAt(shown.names, numberAt(shown.name, i));
      pen.text(left + begin + 4, y + ROW / 2, name, { color: ink.text, size: 10, room: end - begin - 8 });
    }
  }
  const ends = operatorEnds.value;
  for (const at of ends ?? []) {
    if (at >= viewport.from && at <= viewport.to) pen.fill(left + xOf(viewport, at) - 0.5, 0, 1, laid.value.height, ink.accent);
  }
}

/** A press that moves fewer CSS pixels than this is a click. */
const CLICK = 4;

export function Operators({ lanes }: { lanes: OperatorLanes }) {
  const [box, size] = useSize<HTMLDivElement>();
  const [hover, setHover] = useState<{ at: number; x: number; y: number } | null>(null);
  const drag = useRef<{ x: number; y: number; moved: number } | null>(null);
  const g = geometryIn(size.width, 100, NOTHING_ABOVE, window.devicePixelRatio || 1);
  const [from, to] = shownRange.value;
  const viewport: Viewport = { from, to, low: 0, high: 1, width: g.plotWidth, height: 1 };
  const shown = picture.value;
  const { height } = laid.value;
  useEffect(() => {
    width.value = size.width > 0 ? g.plotWidth : 0;
    return () => void (width.value = 0);
  }, [size.width]);
  const at = (e: MouseEvent): [number, number] => {
    const bounds = box.current!.getBoundingClientRect();
    return [e.clientX - bounds.left - g.left, e.clientY - bounds.top + box.current!.scrollTop];
  };
  const found = (e: MouseEvent) => (shown ? spanAt(shown, viewport, ...at(e)) : null);
  useEffect(() => {
    // Preact's listeners are passive.
    const element = box.current!;
    const wheel = (e: WheelEvent) => {
      e.preventDefault();
      const place = Math.min(Math.max(at(e)[0], 0), g.plotWidth);
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY) && !e.ctrlKey) pan((e.deltaX * (to - from)) / g.plotWidth);
      else zoom(Math.exp(e.deltaY * (e.ctrlKey ? 0.01 : 0.002)), atOf(viewport, place));
      setHover(null);
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => element.removeEventListener('wheel', wheel);
  });
  const move = (e: PointerEvent) => {
    const pressed = drag.current;
    if (!pressed) {
      const i = found(e);
      return setHover(i === null ? null : { at: i, x: e.clientX, y: e.clientY });
    }
    const [dx, dy] = [e.clientX - pressed.x, e.clientY - pressed.y];
    drag.current = { x: e.clientX, y: e.clientY, moved: pressed.moved + Math.abs(dx) + Math.abs(dy) };
    if (drag.current.moved < CLICK) return;
    setHover(null);
    pan((-dx * (to - from)) / g.plotWidth);
    box.current!.scrollTop -= dy;
  };
  const chooseAt = (e: MouseEvent, zooms: boolean) => {
    const i = found(e);
    if (shown && i !== null) void chooseOperator(numberAt(shown.lane, i), numberAt(shown.span, i), zooms);
  };
  const release = (e: PointerEvent) => {
    const isClick = drag.current !== null && drag.current.moved < CLICK;
    drag.current = null;
    if (isClick) chooseAt(e, false);
  };
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (e.key === 'Enter' && operator.value) showOperator();
    else if (step && shown) chooseBeside(shown, step);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <section class="operators" aria-label={`Operators of ${lanes.name}`} data-spans={shown?.span.length ?? 0}>
      <p class="operators-told quiet" title={lanes.name}>
        {lanes.told} {lanes.left_out > 0 && `${count(lanes.left_out)} small lanes are left out.`}
      </p>
      <div
        ref={box}
        class="operators-box"
        role="application"
        tabIndex={0}
        aria-label={`Lanes of operators: ${lanes.lanes.map(({ title, spans }) => `${title} ${count(spans)}`).join(', ')}. Left and right choose, Enter zooms.`}
        onPointerDown={(e) => {
          if (e.button !== 0 || (e.target as Element).closest('button')) return;
          drag.current = { x: e.clientX, y: e.clientY, moved: 0 };
          e.currentTarget.setPointerCapture(e.pointerId);
        }}
        onPointerMove={move}
        onPointerUp={release}
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => setHover(null)}
        onDblClick={(e) => chooseAt(e, true)}
        onKeyDown={keys}
      >
        <div class="operators-space" style={{ height: `${height}px` }}>
          <Canvas width={size.width} height={height} draw={(pen) => drawLanes(pen, shown, viewport, g.left)} />
          {laid.value.lanes.map((one) => (
            <LaneLabel key={one.lane.number} {...one} />
          ))}
        </div>
      </div>
      {hover && shown && hover.at < shown.span.length && <SpanTooltip shown={shown} {...hover} />}
    </section>
  );
}

/** Chooses the next or the previous visible span of the row of the chosen one; without one, the first. */
function chooseBeside(shown: OperatorPicture, step: number): void {
  const now = shown.span.findIndex((span, i) => operator.value?.[0] === shown.lane[i] && operator.value?.[1] === span);
  const next = now < 0 ? 0 : now + step;
  const isInRow = now < 0 || (shown.lane[next] === shown.lane[now] && shown.row[next] === shown.row[now]);
  if (next < shown.span.length && isInRow) void chooseOperator(numberAt(shown.lane, next), numberAt(shown.span, next));
}

/** The name of a lane beside it, which unfolds its rows. */
function LaneLabel({ lane, top, rows, isUnfolded }: LaidLane) {
  const style = { top: `${top}px`, height: `${rows * ROW}px` };
  const foldable = lane.rows > FOLDED;
  const toggle = () => {
    const next = new Set(unfolded.value);
    if (!next.delete(lane.number)) next.add(lane.number);
    unfolded.value = next;
  };
  if (!foldable)
    return (
      <span class="operators-lane" style={style} title={lane.title}>
        {lane.label}
      </span>
    );
  return (
    <button
      type="button"
      class="operators-lane"
      style={style}
      aria-expanded={isUnfolded}
      title={`${lane.title}: ${isUnfolded ? 'fold' : `unfold ${count(lane.rows)} rows`}`}
      onClick={toggle}
    >
      {isUnfolded ? '▾' : '▸'} {lane.label}
    </button>
  );
}

function SpanTooltip({ shown, at, x, y }: { shown: OperatorPicture; at: number; x: number; y: number }) {
  const lane = operatorLanes.value?.lanes.find(({ number }) => number === shown.lane[at]);
  return (
    <Tooltip x={x} y={y}>
      <p class="tooltip-title">{shown.names[numberAt(shown.name, at)]}</p>
      <Facts
        facts={[
          ['took', duration(numberAt(shown.took_us, at))],
          ['lane', lane?.title ?? ''],
        ]}
      />
      <p class="quiet">Click to see the memory that it allocated.</p>
    </Tooltip>
  );
}
