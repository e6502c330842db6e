// Lays out the segments and blocks of a moment. Segments follow each other in lines like words, long ones over several lines, all at
// one scale. Segments of one pool, stream and kind form a group with a heading. Lengths are in CSS pixels.

import { poolName, streamName } from '../../../names/tags';
import { entryAt, numberAt } from '../../../numbers/at';
import { firstThat } from '../../../numbers/bisect';
import { SEGMENT_KINDS, type Layout, type Tags } from '../../../source/source';

export type Order = 'address' | 'size';

export const LINE = 20;
/** Height of the bars in a line of height LINE; the rest is space. */
export const BAR = 16;
export const HEADING = 28;
const GAP = 3;
const GROUP_GAP = 10;
/** The least visible width of a segment. */
const NARROWEST = 2;
/** Below this width nothing is laid out, because the element has no size yet. */
const NARROWEST_LINE = 40;

/** Height of a pool's title, and the space between its outline and its contents. */
export const POOL_TITLE = 26;
const INSET = 8;

/** An outline around a pool's segment groups: a private pool, or the default pool if there are private ones. */
export interface Envelope {
  pool: NonNullable<Tags['pool']>;
  label: string;
  top: number;
  bottom: number;
}

export interface MapGroup {
  label: string;
  /** The label inside an envelope whose title already names the pool. */
  short: string;
  pool: Tags['pool'];
  /** The left end of its heading. */
  x: number;
  /** The top of its heading. */
  top: number;
  segments: number;
  reserved: number;
  allocated: number;
  /** Freed bytes that wait for another stream. */
  pending: number;
  free: number;
  largestFree: number;
}

/** The part of a segment in one line. */
export interface Piece {
  segment: number;
  /** The range of the segment's bytes that it shows. */
  from: number;
  to: number;
  x: number;
  y: number;
  width: number;
}

export interface Arrangement {
  /** From top to bottom; empty if there is only the default pool. */
  envelopes: Envelope[];
  groups: MapGroup[];
  /** From top to bottom. */
  pieces: Piece[];
  height: number;
  /** Per segment the position of its first block, then the number of blocks. Segments and blocks are sorted by address. */
  blocks: Uint32Array;
}

function groupNames(tags: Tags | undefined, kind: number): Pick<MapGroup, 'label' | 'short' | 'pool'> {
  const pool = tags?.pool ?? null;
  const parts = [streamName(tags?.stream ?? 0)];
  const name = SEGMENT_KINDS[kind];
  if (name !== undefined && name !== 'unknown') parts.push(name);
  return { label: [poolName(pool), ...parts].join(' · '), short: parts.join(' · '), pool };
}

function blocksOfSegments(layout: Layout): Uint32Array {
  const { segments, blocks } = layout;
  const firsts = new Uint32Array(segments.address.length + 1);
  const { length } = blocks.address;
  segments.address.forEach((start, s) => (firsts[s] = firstThat(0, length, (b) => numberAt(blocks.address, b) >= start)));
  firsts[segments.address.length] = length;
  return firsts;
}

/** Adds a segment's bytes to its group. */
function account(group: MapGroup, layout: Layout, segment: number, firsts: Uint32Array): void {
  const { segments, blocks } = layout;
  const end = numberAt(segments.address, segment) + numberAt(segments.bytes, segment);
  let at = numberAt(segments.address, segment);
  for (let b = numberAt(firsts, segment); b < numberAt(firsts, segment + 1); b++) {
    const [address, bytes] = [numberAt(blocks.address, b), numberAt(blocks.bytes, b)];
    if (address >= end) break;
    group.largestFree = Math.max(group.largestFree, address - at);
    at = address + bytes;
    if (blocks.pending[b]) group.pending += bytes;
    else group.allocated += bytes;
  }
  group.largestFree = Math.max(group.largestFree, end - at);
  group.segments += 1;
  group.reserved += numberAt(segments.bytes, segment);
  group.free = group.reserved - group.allocated - group.pending;
}

/** Returns the groups, most reserved bytes first, with the positions of their segments in the requested order. */
function grouped(layout: Layout, tags: readonly Tags[], order: Order, firsts: Uint32Array): [MapGroup, number[]][] {
  const groups = new Map<string, [MapGroup, number[]]>();
  const { address, bytes, kind, tags: segmentTags } = layout.segments;
  for (let s = 0; s < address.length; s++) {
    const names = groupNames(tags[numberAt(segmentTags, s)], numberAt(kind, s));
    let found = groups.get(names.label);
    if (!found) {
      const empty = { ...names, x: 0, top: 0, segments: 0, reserved: 0, allocated: 0, pending: 0, free: 0, largestFree: 0 };
      groups.set(names.label, (found = [empty, []]));
    }
    account(found[0], layout, s, firsts);
    found[1].push(s);
  }
  const all = [...groups.values()].sort((a, b) => b[0].reserved - a[0].reserved);
  if (order === 'size') for (const [, members] of all) members.sort((a, b) => numberAt(bytes, b) - numberAt(bytes, a) || a - b);
  return all;
}

const isPrivate = (pool: Tags['pool']): boolean => pool !== null && (pool[0] !== 0 || pool[1] !== 0);

/** Merges the groups of each pool, the pool with most reserved bytes first; null if there are no private pools. */
function byPool(groups: [MapGroup, number[]][]): [MapGroup, number[]][][] | null {
  if (!groups.some(([group]) => isPrivate(group.pool))) return null;
  const pools = new Map<string, [MapGroup, number[]][]>();
  for (const one of groups) {
    const key = poolName(one[0].pool);
    const pool = pools.get(key);
    if (pool) pool.push(one);
    else pools.set(key, [one]);
  }
  const reserved = (pool: [MapGroup, number[]][]) => pool.reduce((sum, [group]) => sum + group.reserved, 0);
  return [...pools.values()].sort((a, b) => reserved(b) - reserved(a));
}

export function arrange(layout: Layout, tags: readonly Tags[], order: Order, width: number, bytesPerLine: number): Arrangement {
  const blocks = blocksOfSegments(layout);
  const a: Arrangement = { envelopes: [], groups: [], pieces: [], height: 0, blocks };
  if (width < NARROWEST_LINE) return a;
  const perPixel = bytesPerLine / width;
  const groups = grouped(layout, tags, order, blocks);
  const pools = byPool(groups);
  if (!pools) {
    for (const group of groups) place(a, layout, group, perPixel, 0, width);
    return a;
  }
  for (const members of pools) {
    const pool = members[0]?.[0].pool ?? null;
    const top = a.height;
    const inset = pool === null ? 0 : INSET;
    if (pool !== null) a.height += POOL_TITLE;
    for (const group of members) place(a, layout, group, perPixel, inset, width - inset);
    if (pool !== null) a.envelopes.push({ pool, label: poolName(pool), top, bottom: a.height - GROUP_GAP / 2 });
    a.height += GROUP_GAP;
  }
  return a;
}

/** Places a group below the existing ones, between two edges. */
function place(
  a: Arrangement,
  layout: Layout,
  [group, members]: [MapGroup, number[]],
  perPixel: number,
  left: number,
  right: number,
): void {
  let y = a.height;
  Object.assign(group, { top: y, x: left });
  a.groups.push(group);
  y += HEADING;
  let x = left;
  for (const segment of members) {
    const bytes = numberAt(layout.segments.bytes, segment);
    const whole = Math.max(bytes / perPixel, NARROWEST);
    if (x > left && x + whole > right) {
      x = left;
      y += LINE;
    }
    for (let from = 0; from < bytes; ) {
      const room = Math.max((right - x) * perPixel, 1);
      const to = Math.min(from + room, bytes);
      const last = to >= bytes;
      a.pieces.push({ segment, from, to, x, y, width: Math.max((to - from) / perPixel, from === 0 ? NARROWEST : 0) });
      x += (to - from) / perPixel;
      if (!last) {
        x = left;
        y += LINE;
      }
      from = to;
    }
    x += GAP;
  }
  a.height = y + LINE + GROUP_GAP;
}

/** Returns the bytes per line, a power of two, so that `reserved` bytes and the headings of three groups fit into `height`. */
export function fittingLine(reserved: number, height: number): number {
  const lines = Math.max(Math.floor((height - 3 * (HEADING + GROUP_GAP)) / LINE), 3);
  return 2 ** Math.ceil(Math.log2(Math.max(reserved, 1 << 20) / (lines * 0.9)));
}

/** Returns the pieces between two heights. */
export function piecesBetween(a: Arrangement, top: number, bottom: number): Piece[] {
  const first = firstThat(0, a.pieces.length, (p) => entryAt(a.pieces, p).y >= top - LINE);
  let last = first;
  while (last < a.pieces.length && entryAt(a.pieces, last).y < bottom) last += 1;
  return a.pieces.slice(first, last);
}

/** Returns the pool whose title or outline is at a height. */
export const envelopeAt = (a: Arrangement, y: number): Envelope | null =>
  a.envelopes.find(({ top, bottom }) => y >= top && y < bottom) ?? null;

/** A block or a free range at a position of the picture. */
export interface Place {
  segment: number;
  /** The position of the block; null for a free range. */
  block: number | null;
  address: number;
  bytes: number;
}

export function placeAt(a: Arrangement, layout: Layout, x: number, y: number): Place | null {
  const piece = piecesBetween(a, y, y + 1).find((p) => y >= p.y && y < p.y + BAR && x >= p.x && x < p.x + p.width);
  if (!piece) return null;
  const { segments, blocks } = layout;
  const { segment } = piece;
  const start = numberAt(segments.address, segment);
  const address = start + piece.from + ((x - piece.x) / piece.width) * (piece.to - piece.from);
  const [first, end] = [numberAt(a.blocks, segment), numberAt(a.blocks, segment + 1)];
  const next = firstThat(first, end, (b) => numberAt(blocks.address, b) > address);
  const b = next - 1;
  if (b >= first && address < numberAt(blocks.address, b) + numberAt(blocks.bytes, b)) {
    return { segment, block: b, address: numberAt(blocks.address, b), bytes: numberAt(blocks.bytes, b) };
  }
  const from = b >= first ? numberAt(blocks.address, b) + numberAt(blocks.bytes, b) : start;
  const to = next < end ? numberAt(blocks.address, next) : start + numberAt(segments.bytes, segment);
  return { segment, block: null, address: from, bytes: to - from };
}

/** Returns the place of a block. */
export function placeOfBlock(a: Arrangement, { blocks }: Layout, block: number): Place {
  const segment = firstThat(0, a.blocks.length - 1, (s) => numberAt(a.blocks, s + 1) > block);
  return { segment, block, address: numberAt(blocks.address, block), bytes: numberAt(blocks.bytes, block) };
}

/** Returns the positions of blocks in drawing order. Blocks outside all segments are not drawn. */
export function blocksInOrder(a: Arrangement, { segments, blocks }: Layout): number[] {
  const order: number[] = [];
  for (const { segment, from } of a.pieces) {
    if (from > 0) continue;
    const end = numberAt(segments.address, segment) + numberAt(segments.bytes, segment);
    const last = numberAt(a.blocks, segment + 1);
    for (let b = numberAt(a.blocks, segment); b < last && numberAt(blocks.address, b) < end; b++) order.push(b);
  }
  return order;
}

/** Returns the rectangles, each as high as a bar, of a segment's bytes `from..to` in its pieces. */
export function spans(pieces: readonly Piece[], from: number, to: number): { x: number; y: number; width: number }[] {
  const found = [];
  for (const p of pieces) {
    if (to <= p.from || from >= p.to) continue;
    const scale = p.width / (p.to - p.from);
    const left = p.x + (Math.max(from, p.from) - p.from) * scale;
    const right = p.x + (Math.min(to, p.to) - p.from) * scale;
    found.push({ x: left, y: p.y, width: right - left });
  }
  return found;
}

/** Returns the exact sums of the drawn blocks. As in PyTorch, `requested` includes blocks that wait for another stream. */
export function drawnBytes(layout: Layout): Layout['counters'] {
  const total = { requested: 0, allocated: 0, active: 0, reserved: 0 };
  for (const bytes of layout.segments.bytes) total.reserved += bytes;
  const { bytes, requested, pending } = layout.blocks;
  for (let b = 0; b < bytes.length; b++) {
    total.active += numberAt(bytes, b);
    total.requested += numberAt(requested, b);
    if (!pending[b]) total.allocated += numberAt(bytes, b);
  }
  return total;
}
