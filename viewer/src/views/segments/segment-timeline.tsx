import { lifeText } from '../../parts/current';
import { useMemo, useState } from 'preact/hooks';
import { NOTHING_ABOVE, geometryIn } from '../../draw/geometry';
import { momentAt, placeOf } from '../../draw/hit';
import { rangeKeys } from '../../draw/item-colors';
import { rimColor } from '../../draw/paints';
import type { Pen } from '../../draw/pen';
import { shownPicture } from '../../draw/shown';
import { itemsOf } from '../../draw/items';
import { kindText, poolText } from '../../names/tags';
import { entryAt, numberAt } from '../../numbers/at';
import { SaveMenu } from '../../save/menu';
import { framed, legendOf } from '../../save/frame';
import { drawingItems } from '../../save/picture';
import { NONE, type Segments, type Tags } from '../../source/source';
import { shownMoment } from '../../state/moment';
import { axis, shownRange, whole } from '../../state/window';
import { css, mix, parse } from '../../style/colors';
import { dark, inks } from '../../style/theme';
import { address, bytes, count } from '../../text/units';
import { Canvas } from '../../parts/canvas';
import { useSize } from '../../parts/size';
import { Facts, Tooltip } from '../../parts/tooltip';
import { HEADING, barsBetween, fitTracks, type Bar } from './tracks';

export interface SegmentTimelineProps {
  segments: Segments;
  tags: readonly Tags[];
  chosen: number | null;
  choose: (segment: number) => void;
}

/**
 * Returns the conversion from moments to CSS pixels from the plot's left end, aligned with the timeline above. Returns NaN while the
 * timeline has no picture of that axis.
 */
function momentToX(width: number): (moment: number) => number {
  const [from, to] = shownRange.value;
  if (axis.value === 'events') return (moment) => ((moment - from) / (to - from)) * width;
  const picture = shownPicture.value?.picture;
  if (picture?.window.axis !== 'time') return () => NaN;
  const { window } = picture;
  const first = momentAt(picture, 0);
  // A pixel knows only the moment that it shows. At the ends of the recording, moments beyond it are placed at the end.
  const before = window.from <= whole.value[0] ? 0 : -1;
  const after = window.to >= whole.value[1] ? width : width + 1;
  return (moment) => {
    const at = placeOf(picture, moment);
    if (at === null) return moment < first ? before : after;
    return ((at - window.from) / (window.to - window.from)) * width;
  };
}

/** Reserved ranges over the axis of the timeline. */
export function SegmentTimeline(p: SegmentTimelineProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  const [hover, setHover] = useState<{ segment: number; x: number; y: number } | null>(null);
  const { segments, tags } = p;
  const laid = useMemo(() => fitTracks(segments, tags, size.height), [segments, tags, size.height]);
  const items = useMemo(() => itemsOf(segments), [segments]);
  const g = geometryIn(size.width, 100, NOTHING_ABOVE, window.devicePixelRatio || 1);
  const toX = momentToX(g.plotWidth);
  const ends = (i: number): [number, number] => {
    const clip = (x: number) => Math.min(Math.max(x, 0), g.plotWidth);
    const from = clip(toX(numberAt(segments.from, i)));
    const to = segments.to[i] === NONE ? g.plotWidth : clip(toX(numberAt(segments.to, i)));
    return [g.left + from, g.left + Math.max(to, from + 1)];
  };

  const drawAll = (pen: Pen, top: number, bottom: number) => {
    const ink = inks.value;
    const colors = rangeKeys.value;
    const rim = rimColor(dark.value);
    const ground = parse(ink.ground);
    const cursor = toX(shownMoment.value + (axis.value === 'events' ? 0.5 : 0));
    for (const track of laid.tracks) {
      if (track.top + track.height < top || track.top > bottom || track.height < 3) continue;
      pen.fill(g.left, track.top - top, g.plotWidth, track.height, css(mix(parse(ink.sunken), ground, 0.4)));
    }
    for (const bar of barsBetween(laid.bars, top, bottom)) {
      const [from, to] = ends(bar.segment);
      const color = colors.color(colors.hueOf(items, bar.segment));
      pen.fill(from, bar.y - top, to - from, Math.max(bar.height - (bar.height > 4 ? 0.5 : 0), 1), css(color));
      if (bar.height > 3) pen.fill(from, bar.y - top, 1, bar.height, css(mix(color, rim, 0.4)));
    }
    for (const group of laid.groups) {
      if (group.top + HEADING < top || group.top > bottom) continue;
      const y = group.top - top + HEADING / 2 + 2;
      pen.text(g.left, y, group.label, { color: ink.text, bold: true });
      pen.text(g.left + 260, y, `${count(group.ranges)} ${group.ranges === 1 ? 'range' : 'ranges'}`, { color: ink.quiet });
    }
    if (cursor >= 0 && cursor <= g.plotWidth) pen.fill(g.left + cursor, 0, 1, bottom - top, ink.text);
    const chosen = laid.bars.find((b) => b.segment === p.chosen);
    if (chosen) {
      const [from, to] = ends(chosen.segment);
      pen.outline(from - 1, chosen.y - top - 1, Math.max(to - from, 3) + 2, Math.max(chosen.height, 3) + 2, ink.text, 2);
    }
  };

  const at = (e: MouseEvent): Bar | null => {
    const r = box.current!.getBoundingClientRect();
    const [x, y] = [e.clientX - r.left, e.clientY - r.top + scrollTop];
    const under = barsBetween(laid.bars, y - 1, y + 1).filter((b) => {
      const [from, to] = ends(b.segment);
      return x >= from - 1 && x <= to + 1;
    });
    return under.findLast((b) => y >= b.y && y < b.y + b.height) ?? under[0] ?? null;
  };
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step || laid.bars.length === 0) return;
    e.preventDefault();
    e.stopPropagation();
    const now = laid.bars.findIndex((b) => b.segment === p.chosen);
    const next = entryAt(laid.bars, Math.min(Math.max(now + step, 0), laid.bars.length - 1));
    const element = box.current!;
    if (next.y < element.scrollTop || next.y + next.height > element.scrollTop + size.height)
      element.scrollTop = next.y - size.height / 2;
    p.choose(next.segment);
  };
  const saved = drawingItems(() =>
    framed(
      { width: size.width, height: laid.height, ground: inks.value.ground, draw: (pen) => drawAll(pen, 0, laid.height) },
      `reserved ranges over ${axis.value === 'time' ? 'time' : 'events'}`,
      `From ${Math.round(shownRange.value[0]).toLocaleString('en-US')} to ${Math.round(shownRange.value[1]).toLocaleString('en-US')}${axis.value === 'time' ? ' us' : ''}. Heights grow with the logarithm of the bytes.`,
      legendOf(true),
    ),
  );

  return (
    <section class="tracks" aria-label="Reserved ranges over time">
      <header class="table-head">
        <h3>Reserved ranges over {axis.value === 'time' ? 'time' : 'events'}</h3>
        <span class="quiet">one track per address range, height by the logarithm of its bytes</span>
        <span class="spring" />
        <SaveMenu name="segments" items={saved} />
      </header>
      <div
        ref={box}
        class="map-box"
        role="application"
        tabIndex={0}
        aria-label={`Reserved ranges: ${laid.groups.map((t) => `${t.label} ${count(t.ranges)}`).join(', ')}. Arrows choose.`}
        onScroll={(e) => setScrollTop(e.currentTarget.scrollTop)}
        onMouseMove={(e) => {
          const bar = at(e);
          setHover(bar && { segment: bar.segment, x: e.clientX, y: e.clientY });
        }}
        onMouseLeave={() => setHover(null)}
        onClick={(e) => {
          const bar = at(e);
          if (bar) p.choose(bar.segment);
        }}
        onKeyDown={keys}
      >
        <div class="map-space" style={{ height: `${Math.max(laid.height, size.height)}px` }}>
          <Canvas
            class="map-canvas"
            width={size.width}
            height={size.height}
            draw={(pen) => drawAll(pen, scrollTop, scrollTop + size.height)}
          />
        </div>
      </div>
      {hover && (
        <Tooltip x={hover.x} y={hover.y}>
          <Facts facts={segmentFacts(segments, hover.segment, tags)} />
        </Tooltip>
      )}
    </section>
  );
}

function segmentFacts(s: Segments, i: number, tags: readonly Tags[]): [string, string][] {
  return [
    ['address', address(numberAt(s.address, i))],
    ['size', bytes(numberAt(s.bytes, i))],
    ['pool', poolText(tags[numberAt(s.tags, i)])],
    ['kind', kindText(s, i)],
    ['reserved', lifeText(numberAt(s.from, i), numberAt(s.to, i))],
  ];
}
