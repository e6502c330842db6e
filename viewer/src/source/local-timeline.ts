// Pictures of a recording that is in the page: what crates/vramscope-analysis/src/timeline/ does for the server. A test
// holds both to the same answers.

import type { Unpacked } from './packed';
import {
  CATEGORIES,
  KINDS,
  NONE,
  type Axis,
  type Bands,
  type ByteKind,
  type Counters,
  type Picture,
  type Span,
  type Window,
} from './source';

/** The upper end of a fitted picture, as a multiple of the highest bytes in it: room for labels. */
const HEADROOM = 1.04;
/** Values of a column that share one remembered maximum. */
const CHUNK = 64;

/** A column of bytes by moment. It remembers the highest of each chunk, so that the highest of a range is found quickly. */
class RangeMax {
  private readonly chunks: Uint32Array;
  constructor(readonly values: Float64Array) {
    this.chunks = new Uint32Array(Math.ceil(values.length / CHUNK));
    for (let c = 0; c < this.chunks.length; c += 1) {
      this.chunks[c] = this.scan(c * CHUNK, Math.min((c + 1) * CHUNK, values.length) - 1);
    }
  }

  /** The position of the highest value from `first` to `last`, both included; of equal ones the first. */
  position(first: number, last: number): number {
    const [a, b] = [Math.floor(first / CHUNK) + 1, Math.floor(last / CHUNK)];
    if (a >= b) return this.scan(first, last);
    let best = this.scan(first, a * CHUNK - 1);
    const take = (p: number) => {
      if (this.values[p]! > this.values[best]!) best = p;
    };
    for (let c = a; c < b; c += 1) take(this.chunks[c]!);
    take(this.scan(b * CHUNK, last));
    return best;
  }

  private scan(first: number, last: number): number {
    let best = first;
    for (let i = first + 1; i <= last; i += 1) if (this.values[i]! > this.values[best]!) best = i;
    return best;
  }
}

/** What a picture stacks: allocations, or reserved ranges. The columns are by their number. */
interface Stacked {
  bytes: Float64Array;
  /** The first moment at which each is there. */
  from: Uint32Array;
  /** The first moment at which it is there no more; NONE where it stays. */
  to: Uint32Array;
  /** Their numbers in the order in which they came to be: the order from the bottom up. */
  order: Uint32Array;
}

export class LocalTimeline {
  readonly moments: number;
  private readonly counters: Record<ByteKind, RangeMax>;
  private readonly stacked: Record<ByteKind, Stacked>;
  private readonly times: Float64Array | null;

  constructor(private readonly data: Unpacked) {
    const { allocations, ranges, events } = data;
    this.moments = events.action.length + 1;
    const births = order(allocations.from);
    const live = { from: allocations.from, order: births };
    this.stacked = {
      requested: { ...live, bytes: allocations.requested, to: allocations.to },
      allocated: { ...live, bytes: allocations.bytes, to: allocations.freed },
      active: { ...live, bytes: allocations.bytes, to: allocations.to },
      reserved: { from: ranges.from, to: ranges.to, bytes: ranges.bytes, order: order(ranges.from) },
    };
    const sums = (kind: ByteKind) => new RangeMax(sumOverTime(this.stacked[kind], this.moments));
    this.counters = {
      requested: sums('requested'),
      allocated: sums('allocated'),
      active: sums('active'),
      reserved: sums('reserved'),
    };
    this.times = events.time_us.length && !Number.isNaN(events.time_us[0]) ? rising(events.time_us) : null;
  }

  countersAt(moment: number): Counters {
    const at = (kind: ByteKind) => this.counters[kind].values[moment]!;
    return { requested: at('requested'), allocated: at('allocated'), active: at('active'), reserved: at('reserved') };
  }

  /** When a moment was, in microseconds after the first event; null before it, and where events have no times. */
  timeOf(moment: number): number | null {
    return this.times?.[moment - 1] ?? null;
  }

  picture(window: Window): Picture {
    const { stacked, width, height, low } = window;
    const highest = Object.fromEntries(KINDS.map((kind) => [kind, new Float64Array(width)])) as Picture['highest'];
    const { column, shown } = this.columns(window, this.counters[stacked], (x, range) => {
      for (const kind of KINDS) {
        const of = this.counters[kind];
        highest[kind][x] = of.values[of.position(...range)]!;
      }
    });
    const top = (kind: ByteKind) => highest[kind].reduce((a, b) => Math.max(a, b), 0);
    const room = window.fit_reserved ? Math.max(top(stacked), top('reserved')) : top(stacked);
    const fitted = Math.max(Math.max(room, 1) * HEADROOM, low + 1);
    const high = window.high !== null && window.high > low ? window.high : fitted;
    const { id, ...painted } = paint(this.stacked[stacked], shown, low, high, height);
    return { window, low, high, column, highest, ...painted, items: this.items(stacked, id) };
  }

  /** Allocated bytes by category; `categories` are those of the purposes, as positions in `CATEGORIES`. */
  bands(span: Span, categories: readonly number[]): Bands {
    const { column, shown } = this.columns(span, this.counters.allocated, () => {});
    const { bytes, from, to, order } = this.stacked.allocated;
    const sums = CATEGORIES.map(() => null as Float64Array | null);
    let begin = 0;
    for (const thing of order) {
      while (begin < shown.length && shown[begin]! < from[thing]!) begin += 1;
      if (begin === shown.length) break;
      const category = categories[this.data.allocations.purpose[thing]!]!;
      for (let c = begin; c < shown.length && shown[c]! < to[thing]!; c += 1) {
        (sums[category] ??= new Float64Array(shown.length))[c]! += bytes[thing]!;
      }
    }
    const bands = sums.flatMap((of, category) => (of ? [{ category, bytes: of }] : []));
    return { column, moment: shown, bands };
  }

  /** The moments that the pixel columns of a window show: in each the first at which `counter` is highest. */
  private columns(window: Span, counter: RangeMax, each: (x: number, range: [number, number]) => void) {
    const { width } = window;
    // Where pixel column `x` begins on the axis. Both neighbours of an edge compute the same number, so that no moment falls
    // between them; the last edge is exactly the window's end.
    const edge = (x: number) => (x === width ? window.to : window.from + (x * (window.to - window.from)) / width);
    const column = new Uint32Array(width);
    const shown: number[] = [];
    for (let x = 0; x < width; x += 1) {
      const range = this.momentsBetween(window.axis, edge(x), edge(x + 1));
      if (!range) {
        column[x] = NONE;
        continue;
      }
      each(x, range);
      const moment = counter.position(...range);
      if (shown[shown.length - 1] !== moment) shown.push(moment);
      column[x] = shown.length - 1;
    }
    return { column, shown: Uint32Array.from(shown) };
  }

  private items(kind: ByteKind, id: Uint32Array): Picture['items'] {
    const of = this.stacked[kind];
    const things = kind === 'reserved' ? this.data.ranges : this.data.allocations;
    const numbers = (column: Uint32Array) => id.map((i) => column[i]!);
    const bytes = (column: Float64Array) => Float64Array.from(id, (i) => column[i]!);
    return {
      id,
      address: bytes(things.address),
      bytes: bytes(of.bytes),
      size: bytes(things.bytes),
      from: numbers(of.from),
      to: numbers(of.to),
      stack: numbers(things.stack),
      tags: numbers(things.tags),
      purpose: kind === 'reserved' ? new Uint8Array() : Uint8Array.from(id, (i) => this.data.allocations.purpose[i]!),
    };
  }

  /** The first and last moment between `from` and `to` on the axis; null where there is none. */
  private momentsBetween(axis: Axis, from: number, to: number): [number, number] | null {
    const last = this.moments - 1;
    if (axis === 'time' && this.times) {
      const times = this.times;
      if (to < 0 || from > (times[times.length - 1] ?? 0)) return null;
      // Moment 0 has no time: it belongs to the first pixel.
      const first = from <= 0 ? 0 : countBelow(times, (t) => t <= from);
      return [first, countBelow(times, (t) => t <= to)];
    }
    const first = Math.max(Math.floor(from), 0);
    if (to <= 0 || first > last) return null;
    return [first, Math.min(Math.max(Math.ceil(to) - 1, first), last)];
  }
}

/** Positions in `from`, sorted by its values; those of equal values in their order. */
function order(from: Uint32Array): Uint32Array {
  const numbers = Uint32Array.from(from, (_, i) => i);
  return numbers.sort((a, b) => from[a]! - from[b]! || a - b);
}

/** The bytes that are there at each moment. */
function sumOverTime(things: Stacked, moments: number): Float64Array {
  const sums = new Float64Array(moments);
  things.from.forEach((from, i) => {
    const to = things.to[i]!;
    if (to <= from) return;
    sums[from]! += things.bytes[i]!;
    if (to < moments) sums[to]! -= things.bytes[i]!;
  });
  for (let m = 1; m < moments; m += 1) sums[m]! += sums[m - 1]!;
  return sums;
}

/** Times that never fall: the clock of the program may step back, and then the time before holds. */
function rising(times: Float64Array): Float64Array {
  const out = times.slice();
  for (let i = 1; i < out.length; i += 1) out[i] = Math.max(out[i]!, out[i - 1]!);
  return out;
}

/** How many values at the front are below, in a column in which those that are come first. */
function countBelow(values: Float64Array, below: (value: number) => boolean): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (below(values[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The runs of a picture (see `Picture`): what is there at each of the moments in `moment`, which rise, drawn in `height` rows from
 * `low` to `high` bytes. Each thing is visited once, in the order of the stack, and each column adds its bytes: a column notes a
 * run only where its sum passes the middle of a row.
 */
function paint(stack: Stacked, moment: Uint32Array, low: number, high: number, height: number) {
  const rowBytes = (high - low) / height;
  const bytes = new Float64Array(moment.length);
  const row = new Uint16Array(moment.length);
  const next = new Float64Array(moment.length).fill(low + rowBytes / 2);
  const start = new Uint32Array(moment.length + 1);
  // The runs in the order in which they are found, thing by thing; sorted by column below.
  const runs = { column: [] as number[], item: [] as number[], end: [] as number[] };
  const id: number[] = [];
  let begin = 0;
  for (const thing of stack.order) {
    const [from, to, size] = [stack.from[thing]!, stack.to[thing]!, stack.bytes[thing]!];
    while (begin < moment.length && moment[begin]! < from) begin += 1;
    if (begin === moment.length) break;
    if (to <= from) continue;
    let seen = false;
    for (let c = begin; c < moment.length && moment[c]! < to; c += 1) {
      const sum = (bytes[c]! += size);
      if (sum <= next[c]! || row[c]! >= height) continue;
      const rows = Math.ceil((sum - low) / rowBytes - 0.5);
      row[c] = Math.min(Math.max(rows, row[c]! + 1), height);
      next[c] = low + (row[c]! + 0.5) * rowBytes;
      runs.column.push(c);
      runs.item.push(id.length);
      runs.end.push(row[c]!);
      start[c + 1]! += 1;
      seen = true;
    }
    if (seen) id.push(thing);
  }
  for (let c = 0; c < moment.length; c += 1) start[c + 1]! += start[c]!;
  const at = start.slice();
  const item = new Uint32Array(runs.item.length);
  const end = new Uint16Array(runs.item.length);
  runs.column.forEach((c, i) => {
    const place = at[c]!++;
    item[place] = runs.item[i]!;
    end[place] = runs.end[i]!;
  });
  return { moment, start, item, end, id: Uint32Array.from(id) };
}
