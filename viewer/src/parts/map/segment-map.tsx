import { useMemo, useState } from 'preact/hooks';
import { mix, parse } from '../../colors';
import { poolName, streamName } from '../../live/group';
import { SaveMenu } from '../../save/menu';
import { drawingItems } from '../../save/picture';
import { query } from '../../search/found';
import { matching } from '../../search/query';
import { inks, type Token } from '../../shell/theme';
import { NONE, type Items, type Layout, type Names, type Tags } from '../../source/source';
import { stackTitle } from '../../timeline/keys';
import { keys as colorKeys } from '../../timeline/model';
import { address, bytes } from '../../text/units';
import { Canvas } from '../canvas';
import { Button, Segmented } from '../controls';
import type { Pen } from '../pen';
import { useSize } from '../size';
import { Facts, Tooltip } from '../tooltip';
import { arrange, fittingLine, placeAt, type Order, type Place } from './arrange';
import { joinExpandable } from './join';
import { drawMap, groupFacts, type MapScene } from './draw';

const FADED = 0.86;
/** Room for outlines at the edges. */
const MARGIN = 4;

export interface Outline {
  address: number;
  bytes: number;
  ink: Token;
}

export interface SegmentMapProps {
  layout: Layout;
  tags: readonly Tags[];
  names: Names | null;
  /** The most that is ever reserved: the scale holds for all moments. */
  peakReserved: number;
  outlined: readonly Outline[];
  choose: (allocation: number) => void;
  keys: (e: KeyboardEvent) => void;
  drawn: () => void;
}

const ORDER_CHOICES: { value: Order; label: string }[] = [
  { value: 'address', label: 'Address' },
  { value: 'size', label: 'Size' },
];
/** A line never stands for less. */
const FINEST = 1 << 16;
/** Beyond it scrolling would go wrong; see virtual.ts. */
const HIGHEST = 6_000_000;

/** Blocks as the timeline's colours take them. */
function itemsOf({ blocks }: Layout): Items {
  const to = new Uint32Array(blocks.from.length).fill(NONE);
  return { id: blocks.allocation, address: blocks.address, bytes: blocks.bytes, from: blocks.from, to, stack: blocks.stack, tags: blocks.tags };
}

/** Segments and blocks at a moment. */
export function SegmentMap(p: SegmentMapProps) {
  const layout = useMemo(() => joinExpandable(p.layout), [p.layout]);
  const [box, size] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const [order, setOrder] = useState<Order>('address');
  /** Halvings of a line's bytes since all fitted. */
  const [zoom, setZoom] = useState(0);
  const { tags } = p;
  const width = Math.max(size.width - 2 * MARGIN, 0);
  const bytesPerLine = fittingLine(p.peakReserved, size.height) / 2 ** zoom;
  const arrangement = useMemo(
    () => arrange(layout, tags, order, width, bytesPerLine),
    [layout, tags, order, width, bytesPerLine],
  );
  const items = useMemo(() => itemsOf(layout), [layout]);
  const ink = inks.value;
  const found = query.value && matching(query.value, items);
  const keying = colorKeys.value;
  const ground = parse(ink.ground);
  const scene: MapScene = {
    layout,
    arrangement,
    width,
    inks: ink,
    color: (b) => {
      const own = keying.color(keying.keyOf(items, b));
      return found && !found[b] ? mix(own, ground, FADED) : own;
    },
    outlined: p.outlined,
  };
  const draw = (pen: Pen) => drawMap(pen, scene, scrollTop, scrollTop + size.height);
  const saved = drawingItems(() => ({
    width,
    height: arrangement.height,
    ground: ink.ground,
    draw: (pen) => drawMap(pen, scene, 0, arrangement.height),
  }));
  const canFiner = bytesPerLine > FINEST && arrangement.height < HIGHEST;

  const placeUnder = (x: number, y: number) => {
    const r = box.current?.getBoundingClientRect();
    return r ? placeAt(arrangement, layout, x - r.left - MARGIN, y - r.top + scrollTop) : null;
  };
  // Looked up when drawn: the moment may change under a pointer that rests.
  const hovered = pointer && placeUnder(pointer.x, pointer.y);
  const click = (e: MouseEvent) => {
    const place = placeUnder(e.clientX, e.clientY);
    if (place?.block != null) p.choose(layout.blocks.allocation[place.block]);
  };

  return (
    <section class="map" aria-label="Segments and blocks">
      <header class="toolbar">
        <Segmented label="Order by" choices={ORDER_CHOICES} value={order} choose={setOrder} />
        <div class="button-row" role="group" aria-label="Scale">
          <Button label="Coarser scale" onClick={() => setZoom(zoom - 1)}>−</Button>
          <span class="scale" title={`${bytesPerLine.toLocaleString('en-US')} bytes`}>one line is {bytes(bytesPerLine)}</span>
          <Button label="Finer scale" disabled={!canFiner} onClick={() => setZoom(zoom + 1)}>+</Button>
          {zoom !== 0 && <Button onClick={() => setZoom(0)}>Fit</Button>}
        </div>
        <Legend />
        <span class="spring" />
        <SaveMenu name={`state-${layout.moment}`} items={saved} />
      </header>
      <div
        ref={box}
        class="map-box"
        role="application"
        tabIndex={0}
        aria-label={`Segments and blocks. ${arrangement.groups.map((g) => `${g.label}: ${groupFacts(g)}`).join('. ')}`}
        onScroll={() => setScrollTop(box.current!.scrollTop)}
        onMouseMove={(e) => setPointer({ x: e.clientX, y: e.clientY })}
        onMouseLeave={() => setPointer(null)}
        onClick={click}
        onKeyDown={p.keys}
      >
        <div class="map-space" style={{ height: `${Math.max(arrangement.height, size.height)}px` }}>
          <Canvas class="map-canvas" width={width} height={size.height} draw={draw} drawn={p.drawn} />
        </div>
      </div>
      {pointer && hovered && (
        <Tooltip {...pointer}>
          <PlaceFacts place={hovered} {...p} layout={layout} />
        </Tooltip>
      )}
    </section>
  );
}

/** What is not told by colours of stacks. */
function Legend() {
  return (
    <ul class="map-legend">
      <li><span class="swatch swatch-free" />free</li>
      <li><span class="swatch swatch-rounding" />lost to rounding</li>
      <li><span class="swatch swatch-pending" />freed, pending</li>
    </ul>
  );
}

function PlaceFacts({ place, layout, tags, names }: SegmentMapProps & { place: Place }) {
  const { segments, blocks } = layout;
  const s = place.segment;
  const own = tags[segments.tags[s]];
  const kind = [['small, ', 'large, ', ''][segments.kind[s]], segments.expandable[s] ? 'expandable, ' : ''].join('');
  const segment: [string, string][] = [
    ['segment', `${address(segments.address[s])}, ${bytes(segments.bytes[s])}`],
    ['', `${kind}${poolName(own?.pool ?? null)}, ${streamName(own?.stream ?? 0)}`],
  ];
  if (place.block === null) {
    return (
      <>
        <p class="tooltip-title">Free</p>
        <Facts facts={[['address', address(place.address)], ['size', bytes(place.bytes)], ...segment]} />
      </>
    );
  }
  const b = place.block;
  const rounding = blocks.bytes[b] - blocks.requested[b];
  return (
    <>
      <p class="tooltip-title">{names ? stackTitle(names, blocks.stack[b]) : 'Block'}</p>
      <Facts
        facts={[
          ['address', address(place.address)],
          ['size', bytes(blocks.bytes[b])],
          ['requested', rounding > 0 ? `${bytes(blocks.requested[b])}, ${bytes(rounding)} lost to rounding` : bytes(blocks.requested[b])],
          ...(blocks.pending[b] ? ([['state', 'freed, waiting for another stream']] as [string, string][]) : []),
          ...segment,
        ]}
      />
    </>
  );
}
