import { useSignal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { stackTitle } from '../../../draw/color-keys';
import { colorKeys } from '../../../draw/item-colors';
import type { Pen } from '../../../draw/pen';
import { itemsOf } from '../../../draw/items';
import { kindText, poolText, purposeFacts } from '../../../names/tags';
import { entryAt, numberAt } from '../../../numbers/at';
import { firstThat } from '../../../numbers/bisect';
import { SaveMenu } from '../../../save/menu';
import { framed, legendOf } from '../../../save/frame';
import { drawingItems } from '../../../save/picture';
import { isIn, onlyQuery, shownFound } from '../../../search/found';
import { NONE, type Layout, type Names, type PoolCourse, type Tables } from '../../../source/source';
import { pool } from '../../../state/pools';
import { selected } from '../../../state/selection';
import { FADED, mix, parse } from '../../../style/colors';
import { inks, type Token } from '../../../style/theme';
import { address, bytes, count } from '../../../text/units';
import { Canvas } from '../../../parts/canvas';
import { Button, Segmented } from '../../../parts/controls';
import { bringIntoSight, useSize } from '../../../parts/size';
import { Facts, Tooltip } from '../../../parts/tooltip';
import {
  LINE,
  arrange,
  blocksInOrder,
  envelopeAt,
  fittingLine,
  placeAt,
  placeOfBlock,
  spans,
  type Arrangement,
  type Order,
  type Place,
} from './arrange';
import { drawMap, groupFacts, type MapScene } from './draw';
import { joinExpandable } from './join';

/** Room at the edges for outlines, in CSS pixels. */
const MARGIN = 4;

export interface Outline {
  address: number;
  bytes: number;
  ink: Token;
}

export interface SegmentMapProps {
  layout: Layout;
  tables: Tables;
  names: Names | null;
  /** The recording's highest reserved bytes, so that the scale is the same at all moments. */
  peakReserved: number;
  outlined: readonly Outline[];
  /** The pools of the recording, and its last moment. */
  pools: readonly PoolCourse[];
  end: number;
  choose: (allocation: number) => void;
  /** An address that is scrolled into view when it changes. */
  bring: number | null;
  /** Called when a free range is clicked. */
  chooseHole: (address: number) => void;
  keys: (e: KeyboardEvent) => void;
  drawn: () => void;
}

const ORDER_CHOICES: { value: Order; label: string }[] = [
  { value: 'address', label: 'Address' },
  { value: 'size', label: 'Size' },
];
/** The fewest bytes per line. */
const FINEST = 1 << 16;
/** The greatest height in CSS pixels; a higher element cannot be scrolled exactly (see virtual.ts). */
const HIGHEST = 6_000_000;

/** Blocks that an arrow key with Shift skips. */
const STRIDE = 100;

/** A map of the segments and blocks at a moment. Left and right move from block to block, Enter selects one. */
export function SegmentMap(p: SegmentMapProps) {
  const layout = useMemo(() => joinExpandable(p.layout), [p.layout]);
  const [box, size] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  // A signal, so that moving the pointer redraws only the tooltip.
  const pointer = useSignal<Point | null>(null);
  /** The address of the block that the arrow keys have reached. */
  const [walked, setWalked] = useState<number | null>(null);
  const [order, setOrder] = useState<Order>('address');
  /** How often the bytes per line were halved, from the scale at which everything fits. */
  const [zoom, setZoom] = useState(0);
  const { tags } = p.tables;
  const width = Math.max(size.width - 2 * MARGIN, 0);
  const bytesPerLine = fittingLine(p.peakReserved, size.height) / 2 ** zoom;
  const arrangement = useMemo(
    () => arrange(layout, tags, order, width, bytesPerLine),
    [layout, tags, order, width, bytesPerLine],
  );
  const items = useMemo(() => itemsOf(layout.blocks), [layout]);
  const ink = inks.value;
  const found = shownFound.value?.allocations;
  const colors = colorKeys.value;
  const ground = parse(ink.ground);
  // Darker than free memory on a light ground, and lighter on a dark one.
  const plain = mix(parse(ink.quiet), ground, 0.45);
  const { blocks } = layout;
  const blockAt = walked === null ? -1 : blocks.address.indexOf(walked);
  const at = blockAt < 0 ? null : placeOfBlock(arrangement, layout, blockAt);
  const scene: MapScene = {
    layout,
    arrangement,
    width,
    inks: ink,
    color: (b) => {
      const own = colors.color(colors.hueOf(items, b));
      if (!found || isIn(found, numberAt(blocks.allocation, b))) return own;
      // Blocks keep their places in memory: those that do not match lose their color instead.
      return onlyQuery.value ? plain : mix(own, ground, FADED);
    },
    pools: { courses: p.pools, end: p.end, chosen: pool.value },
    outlined: at === null ? p.outlined : [...p.outlined, { ...at, ink: 'warn' }],
  };
  const draw = (pen: Pen) => drawMap(pen, scene, scrollTop, scrollTop + size.height);
  const saved = drawingItems(() =>
    framed(
      { width, height: arrangement.height, ground: ink.ground, draw: (pen) => drawMap(pen, scene, 0, arrangement.height) },
      layout.moment === 0 ? 'segments and blocks at the start' : `segments and blocks after event ${count(layout.moment - 1)}`,
      `One line is ${bytes(bytesPerLine)}. Paler: lost to rounding. Hatched: freed, pending. Empty: free.`,
      legendOf(false),
    ),
  );
  const canFiner = bytesPerLine > FINEST && arrangement.height < HIGHEST;

  const placeUnder = (x: number, y: number) => {
    const r = box.current?.getBoundingClientRect();
    return r ? placeAt(arrangement, layout, x - r.left - MARGIN, y - r.top + scrollTop) : null;
  };
  const click = (e: MouseEvent) => {
    const place = placeUnder(e.clientX, e.clientY);
    setWalked(null);
    if (place?.block != null) p.choose(numberAt(blocks.allocation, place.block));
    else if (place) p.chooseHole(place.address);
    else {
      const r = box.current!.getBoundingClientRect();
      const envelope = envelopeAt(arrangement, e.clientY - r.top + scrollTop);
      if (envelope) pool.value = envelope.pool;
    }
  };
  const walk = (steps: number) => {
    const order = blocksInOrder(arrangement, layout);
    if (order.length === 0) return;
    // The first step starts at the selected block, or at the first block. A block that was reached before may be gone at this moment;
    // the next one in memory replaces it.
    const near =
      walked === null
        ? blocks.allocation.indexOf(selected.value ?? NONE)
        : Math.min(
            firstThat(0, blocks.address.length, (b) => numberAt(blocks.address, b) >= walked),
            blocks.address.length - 1,
          );
    const from = order.indexOf(near);
    const next = entryAt(order, Math.min(Math.max(from < 0 ? 0 : from + steps, 0), order.length - 1));
    setWalked(numberAt(blocks.address, next));
    const { segment, address: start, bytes: length } = placeOfBlock(arrangement, layout, next);
    const pieces = arrangement.pieces.filter((piece) => piece.segment === segment);
    const begin = start - numberAt(layout.segments.address, segment);
    const y = spans(pieces, begin, begin + length)[0]?.y ?? 0;
    bringIntoSight(box.current, y - MARGIN, y + LINE);
  };
  const brought = p.bring;
  const yOfBrought = brought === null ? null : heightOf(arrangement, layout, brought);
  useEffect(() => {
    if (yOfBrought !== null) bringIntoSight(box.current, yOfBrought - MARGIN, yOfBrought + LINE);
  }, [brought, yOfBrought]);
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (step) walk(e.shiftKey ? step * STRIDE : step);
    else if ((e.key === 'Enter' || e.key === ' ') && at) p.choose(numberAt(blocks.allocation, blockAt));
    else return p.keys(e);
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    <section class="map" aria-label="Segments and blocks">
      <header class="toolbar">
        <Segmented label="Order by" choices={ORDER_CHOICES} value={order} choose={setOrder} />
        <div class="button-row" role="group" aria-label="Scale">
          <Button label="Coarser scale" onClick={() => setZoom(zoom - 1)}>
            −
          </Button>
          <span class="scale" title={`${bytesPerLine.toLocaleString('en-US')} bytes`}>
            one line is {bytes(bytesPerLine)}
          </span>
          <Button label="Finer scale" disabled={!canFiner} onClick={() => setZoom(zoom + 1)}>
            +
          </Button>
          {zoom !== 0 && <Button onClick={() => setZoom(0)}>Fit</Button>}
        </div>
        <Legend preexisting={layout.blocks.preexisting.includes(1)} />
        <span class="spring" />
        <SaveMenu name={`state-${layout.moment}`} items={saved} />
      </header>
      <div
        ref={box}
        class="map-box"
        role="application"
        tabIndex={0}
        aria-label={`Segments and blocks: left and right walk the blocks, Enter selects. ${arrangement.groups.map((g) => `${g.label}: ${groupFacts(g)}`).join('. ')}`}
        onScroll={(e) => setScrollTop(e.currentTarget.scrollTop)}
        onMouseMove={(e) => (pointer.value = { x: e.clientX, y: e.clientY })}
        onMouseLeave={() => (pointer.value = null)}
        onClick={click}
        onKeyDown={keys}
        onBlur={() => setWalked(null)}
      >
        <div class="map-space" style={{ height: `${Math.max(arrangement.height, size.height)}px` }}>
          <Canvas class="map-canvas" width={width} height={size.height} draw={draw} drawn={p.drawn} />
        </div>
      </div>
      <p class="visually-hidden" aria-live="polite">
        {at && placeText(describePlace(at, layout, p), blocks.allocation[blockAt] === selected.value)}
      </p>
      <Hovered pointer={pointer} placeUnder={placeUnder} describe={(place) => describePlace(place, layout, p)} />
    </section>
  );
}

/** Returns the height of an address in the map; null if no segment contains it. */
function heightOf(arrangement: Arrangement, { segments }: Layout, address: number): number | null {
  const segment = firstThat(0, segments.address.length, (s) => numberAt(segments.address, s) > address) - 1;
  if (segment < 0) return null;
  const begin = address - numberAt(segments.address, segment);
  const pieces = arrangement.pieces.filter((piece) => piece.segment === segment);
  return spans(pieces, begin, begin + 1)[0]?.y ?? null;
}

interface Point {
  x: number;
  y: number;
}

interface HoveredProps {
  pointer: ReadonlySignal<Point | null>;
  placeUnder: (x: number, y: number) => Place | null;
  describe: (place: Place) => PlaceDescription;
}

/** The tooltip. It looks up the block under the pointer on each render, because the moment may change while the pointer rests. */
function Hovered({ pointer, placeUnder, describe }: HoveredProps) {
  const at = pointer.value;
  const place = at && placeUnder(at.x, at.y);
  if (!place) return null;
  const { title, facts } = describe(place);
  return (
    <Tooltip {...at}>
      <p class="tooltip-title">{title}</p>
      <Facts facts={facts} />
    </Tooltip>
  );
}

/** The legend of patterns without a color. */
function Legend({ preexisting }: { preexisting: boolean }) {
  return (
    <ul class="map-legend">
      <li>
        <span class="swatch swatch-free" />
        free
      </li>
      <li>
        <span class="swatch swatch-rounding" />
        lost to rounding
      </li>
      <li>
        <span class="swatch swatch-pending" />
        freed, pending
      </li>
      {preexisting && (
        <li>
          <span class="swatch swatch-preexisting" />
          live before recording
        </li>
      )}
    </ul>
  );
}

interface PlaceDescription {
  title: string;
  facts: [string, string][];
}

function describePlace(place: Place, { segments, blocks }: Layout, { tables, names }: SegmentMapProps): PlaceDescription {
  const s = place.segment;
  const segment: [string, string][] = [
    ['segment', `${address(numberAt(segments.address, s))}, ${bytes(numberAt(segments.bytes, s))}`],
    ['kind', kindText(segments, s)],
    ['pool', poolText(tables.tags[numberAt(segments.tags, s)])],
  ];
  const b = place.block;
  if (b === null)
    return { title: 'Free', facts: [['address', address(place.address)], ['size', bytes(place.bytes)], ...segment] };
  const rounding = numberAt(blocks.bytes, b) - numberAt(blocks.requested, b);
  const facts: [string, string][] = [
    ['address', address(place.address)],
    ['size', bytes(numberAt(blocks.bytes, b))],
    [
      'requested',
      rounding > 0
        ? `${bytes(numberAt(blocks.requested, b))}, ${bytes(rounding)} lost to rounding`
        : bytes(numberAt(blocks.requested, b)),
    ],
  ];
  facts.unshift(...purposeFacts(tables.purposes?.[numberAt(blocks.purpose, b)]));
  if (blocks.preexisting[b]) facts.push(['allocated', 'before recording began']);
  if (blocks.pending[b]) facts.push(['state', 'freed, waiting for another stream']);
  return { title: names ? stackTitle(names, numberAt(blocks.stack, b)) : 'Block', facts: [...facts, ...segment] };
}

const placeText = ({ title, facts }: PlaceDescription, isSelected: boolean) =>
  [title, ...facts.map(([name, value]) => `${name} ${value}`), ...(isSelected ? ['selected'] : [])].join(', ');
