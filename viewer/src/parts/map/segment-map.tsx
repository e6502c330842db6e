import { useMemo, useState } from 'preact/hooks';
import { mix, parse } from '../../colors';
import { poolName, streamName } from '../../live/group';
import { stackLabel } from '../../live/stacks';
import { drawingItems } from '../../save/picture';
import type { SaveItem } from '../../save/files';
import { query } from '../../search/found';
import { matching } from '../../search/query';
import { inks, type Token } from '../../shell/theme';
import { NONE, type Items, type Layout, type Names, type Tags } from '../../source/source';
import { keys as colorKeys } from '../../timeline/model';
import { address, bytes } from '../../text/units';
import { Canvas } from '../canvas';
import type { Pen } from '../pen';
import { useSize } from '../size';
import { Facts, Tooltip } from '../tooltip';
import { arrange, placeAt, type Order, type Place } from './arrange';
import { drawMap, groupFacts, type MapScene } from './draw';

const FADED = 0.86;

export interface Outline {
  address: number;
  bytes: number;
  ink: Token;
}

export interface SegmentMapProps {
  layout: Layout;
  tags: readonly Tags[];
  names: Names | null;
  order: Order;
  bytesPerLine: number;
  outlined: readonly Outline[];
  choose: (allocation: number) => void;
  keys: (e: KeyboardEvent) => void;
  drawn: () => void;
  /** Called when the picture's items to save change hands. */
  saves: (items: SaveItem[]) => void;
}

/** Blocks as the timeline's colours take them. */
function itemsOf({ blocks }: Layout): Items {
  const to = new Uint32Array(blocks.from.length).fill(NONE);
  return { id: blocks.allocation, address: blocks.address, bytes: blocks.bytes, from: blocks.from, to, stack: blocks.stack, tags: blocks.tags };
}

/** Segments and blocks at a moment. */
export function SegmentMap(p: SegmentMapProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  const [hover, setHover] = useState<{ place: Place; x: number; y: number } | null>(null);
  const { layout, tags } = p;
  const width = Math.max(size.width - 2, 0);
  const arrangement = useMemo(
    () => arrange(layout, tags, p.order, width, p.bytesPerLine),
    [layout, tags, p.order, width, p.bytesPerLine],
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
  p.saves(
    drawingItems(() => ({
      width,
      height: arrangement.height,
      ground: ink.ground,
      draw: (pen) => drawMap(pen, scene, 0, arrangement.height),
    })),
  );

  const at = (e: MouseEvent) => {
    const r = box.current!.getBoundingClientRect();
    return placeAt(arrangement, layout, e.clientX - r.left, e.clientY - r.top + scrollTop);
  };
  const move = (e: MouseEvent) => {
    const place = at(e);
    setHover(place && { place, x: e.clientX, y: e.clientY });
  };
  const click = (e: MouseEvent) => {
    const place = at(e);
    if (place?.block != null) p.choose(layout.blocks.allocation[place.block]);
  };

  return (
    <div
      ref={box}
      class="map-box"
      role="application"
      tabIndex={0}
      aria-label={`Segments and blocks. ${arrangement.groups.map((g) => `${g.label}: ${groupFacts(g)}`).join('. ')}`}
      onScroll={() => setScrollTop(box.current!.scrollTop)}
      onMouseMove={move}
      onMouseLeave={() => setHover(null)}
      onClick={click}
      onKeyDown={p.keys}
    >
      <div class="map-space" style={{ height: `${Math.max(arrangement.height, size.height)}px` }}>
        <Canvas class="map-canvas" width={size.width} height={size.height} draw={draw} drawn={p.drawn} />
      </div>
      {hover && (
        <Tooltip x={hover.x} y={hover.y}>
          <PlaceFacts place={hover.place} {...p} />
        </Tooltip>
      )}
    </div>
  );
}

function PlaceFacts({ place, layout, tags, names }: SegmentMapProps & { place: Place }) {
  const { segments, blocks } = layout;
  const s = place.segment;
  const own = tags[segments.tags[s]];
  const kind = [['small ', 'large ', ''][segments.kind[s]], segments.expandable[s] ? 'expandable ' : ''].join('');
  const segment: [string, string][] = [
    ['Segment', `${address(segments.address[s])}, ${bytes(segments.bytes[s])}`],
    ['', `${kind}${poolName(own?.pool ?? null)}, ${streamName(own?.stream ?? 0)}`],
  ];
  if (place.block === null) {
    return (
      <>
        <p class="tooltip-title">Free</p>
        <Facts facts={[['Address', address(place.address)], ['Size', bytes(place.bytes)], ...segment]} />
      </>
    );
  }
  const b = place.block;
  const rounding = blocks.bytes[b] - blocks.requested[b];
  return (
    <>
      <p class="tooltip-title">{names ? stackLabel(names, blocks.stack[b]) : 'Block'}</p>
      <Facts
        facts={[
          ['Address', address(place.address)],
          ['Size', bytes(blocks.bytes[b])],
          ['Requested', rounding > 0 ? `${bytes(blocks.requested[b])}, ${bytes(rounding)} lost to rounding` : bytes(blocks.requested[b])],
          ...(blocks.pending[b] ? ([['State', 'freed, waiting for another stream']] as [string, string][]) : []),
          ...segment,
        ]}
      />
    </>
  );
}
