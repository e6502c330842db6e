// Answers from the data inside a self-contained page.

import { LocalTimeline } from './local-timeline';
import { Packed, type Unpacked } from './packed';
import { NONE, type Allocation, type Found, type Layout, type Live, type Query, type Source } from './source';

/** How many matches a search lists; all are counted. The server lists as many. */
const MOST_FOUND = 1000;

/** A source of answers from the deflated data in the page, written in base64. */
export async function local(base64: string): Promise<Source> {
  const packed = await Packed.inflate(bytesOf(base64));
  const devices = new Map<string, Device>();
  const at = (file: number, device: number): Device => {
    const key = `${file}/${device}`;
    const known = devices.get(key) ?? new Device(packed.unpacked(file, device));
    devices.set(key, known);
    return known;
  };
  return {
    recordings: async () => packed.recordings(),
    names: async (file) => packed.names(file),
    picture: async (file, device, window) => at(file, device).timeline.picture(window),
    bands: async (file, device, span) => at(file, device).timeline.bands(span, packed.categories(file, device)),
    meaning: async (file, device) => packed.meaning(file, device),
    live: async (file, device, moment) => at(file, device).live(moment),
    layout: async (file, device, moment) => at(file, device).layout(moment),
    events: async (file, device, first, count) => {
      const { events } = at(file, device).data;
      const slice = <T extends { subarray(from: number, to: number): T }>(column: T) => column.subarray(first, first + count);
      return {
        first,
        action: slice(events.action),
        address: slice(events.address),
        bytes: slice(events.bytes),
        time_us: slice(events.time_us),
        stack: slice(events.stack),
        tags: slice(events.tags),
        allocation: slice(events.allocation),
      };
    },
    allocation: async (file, device, id) => at(file, device).allocation(id),
    search: async (file, device, query) => at(file, device).search(query),
    regions: async (file, device) => at(file, device).data.regions,
    segments: async (file, device) => {
      const { ranges } = at(file, device).data;
      const order = indicesWhere(ranges.from.length, () => true).sort(
        (a, b) => ranges.from[a]! - ranges.from[b]! || ranges.address[a]! - ranges.address[b]!,
      );
      return {
        address: pick(ranges.address, order),
        bytes: pick(ranges.bytes, order),
        from: pick(ranges.from, order),
        to: pick(ranges.to, order),
        tags: pick(ranges.tags, order),
        kind: pick(ranges.kind, order),
        expandable: pick(ranges.expandable, order),
        stack: pick(ranges.stack, order),
        pools: packed.device(file, device).pools,
      };
    },
    report: async (file, device) => packed.device(file, device).report,
    replay: async (file, device) => {
      const { replay } = packed.device(file, device);
      if (!replay) throw new Error('This recording cannot be replayed.');
      return replay;
    },
    comparison: async (a, b) => packed.comparison(a, b),
    open: null,
    close: null,
  };
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

type Column = Float64Array | Uint32Array | Uint8Array;

/** The values of `column` at `rows`. */
function pick<T extends Column>(column: T, rows: number[]): T {
  const out = new (column.constructor as new (length: number) => T)(rows.length);
  rows.forEach((row, i) => {
    out[i] = column[row]!;
  });
  return out;
}

/** The numbers below `count` for which `takes` is true. */
function indicesWhere(count: number, takes: (i: number) => boolean): number[] {
  const out: number[] = [];
  for (let i = 0; i < count; i += 1) if (takes(i)) out.push(i);
  return out;
}

class Device {
  readonly timeline: LocalTimeline;
  constructor(readonly data: Unpacked) {
    this.timeline = new LocalTimeline(data);
  }

  live(moment: number): Live {
    const { from, freed, stack, tags, origin, purpose, bytes, requested } = this.data.allocations;
    const groups = new Map<string, { of: number; bytes: number; requested: number; count: number }>();
    const order = indicesWhere(from.length, (i) => from[i]! <= moment && moment < freed[i]!);
    for (const i of order.sort((a, b) => from[a]! - from[b]! || a - b)) {
      const key = `${stack[i]} ${tags[i]} ${origin[i]} ${purpose[i]}`;
      const group = groups.get(key) ?? { of: i, bytes: 0, requested: 0, count: 0 };
      group.bytes += bytes[i]!;
      group.requested += requested[i]!;
      group.count += 1;
      groups.set(key, group);
    }
    const all = [...groups.values()];
    const first = all.map((g) => g.of);
    return {
      moment,
      counters: this.timeline.countersAt(moment),
      stack: pick(stack, first),
      tags: pick(tags, first),
      origin: pick(origin, first),
      purpose: pick(purpose, first),
      bytes: Float64Array.from(all, (g) => g.bytes),
      requested: Float64Array.from(all, (g) => g.requested),
      count: Uint32Array.from(all, (g) => g.count),
    };
  }

  layout(moment: number): Layout {
    const { allocations: a, ranges: r } = this.data;
    const livesIn = (from: Uint32Array, to: Uint32Array) => (i: number) => from[i]! <= moment && moment < to[i]!;
    const byAddress = (address: Float64Array) => (x: number, y: number) => address[x]! - address[y]!;
    const segments = indicesWhere(r.from.length, livesIn(r.from, r.to)).sort(byAddress(r.address));
    const blocks = indicesWhere(a.from.length, livesIn(a.from, a.to)).sort(byAddress(a.address));
    return {
      moment,
      counters: this.timeline.countersAt(moment),
      segments: {
        address: pick(r.address, segments),
        bytes: pick(r.bytes, segments),
        tags: pick(r.tags, segments),
        kind: pick(r.kind, segments),
        expandable: pick(r.expandable, segments),
        stack: pick(r.stack, segments),
        from: pick(r.from, segments),
      },
      blocks: {
        allocation: Uint32Array.from(blocks),
        address: pick(a.address, blocks),
        bytes: pick(a.bytes, blocks),
        requested: pick(a.requested, blocks),
        pending: Uint8Array.from(blocks, (i) => (moment < a.freed[i]! ? 0 : 1)),
        stack: pick(a.stack, blocks),
        tags: pick(a.tags, blocks),
        purpose: pick(a.purpose, blocks),
        from: pick(a.from, blocks),
      },
    };
  }

  allocation(id: number): Allocation {
    const { allocations: a, events } = this.data;
    const [freed, to] = [a.freed[id]!, a.to[id]!];
    let version = 0;
    for (let i = 0; i < id; i += 1) if (a.address[i] === a.address[id]) version += 1;
    const time = (moment: number) => (moment === NONE ? null : this.timeline.timeOf(moment));
    const freedBy = freed !== NONE && freed > 0 && events.allocation[freed - 1] === id ? events.stack[freed - 1]! : NONE;
    const known = (n: number) => (n === NONE ? null : n);
    return {
      id,
      address: a.address[id]!,
      version,
      requested: a.requested[id]!,
      bytes: a.bytes[id]!,
      from: a.from[id]!,
      freed: known(freed),
      to: known(to),
      from_us: time(a.from[id]!),
      freed_us: time(freed),
      to_us: time(to),
      stack: known(a.stack[id]!),
      free_stack: known(freedBy),
      tags: a.tags[id]!,
      purpose: a.purpose[id]!,
      origin: a.origin[id]!,
      size_inferred: a.inferred[id] === 1,
      total: this.timeline.countersAt(a.from[id]!).allocated,
    };
  }

  search(query: Query): Found {
    const a = this.data.allocations;
    const [stacks, tags] = [query.stacks && new Set(query.stacks), query.tags && new Set(query.tags)];
    const purposes = query.purposes && new Set(query.purposes);
    let version = 0;
    const found = indicesWhere(a.from.length, (i) => {
      const [bytes, begin] = [a.bytes[i]!, a.address[i]!];
      const isVersion = query.version === null || (begin === query.address && version++ === query.version);
      return (
        isVersion &&
        (query.min === null || bytes >= query.min) &&
        (query.max === null || bytes <= query.max) &&
        (query.address === null || (begin <= query.address && query.address < begin + Math.max(bytes, 1))) &&
        (!tags || tags.has(a.tags[i]!)) &&
        (!purposes || purposes.has(a.purpose[i]!)) &&
        (!stacks || stacks.has(a.stack[i]!))
      );
    });
    const bytes = found.reduce((sum, i) => sum + a.bytes[i]!, 0);
    const count = found.length;
    const largest = found.sort((x, y) => a.bytes[y]! - a.bytes[x]! || x - y).slice(0, MOST_FOUND);
    return {
      count,
      bytes,
      id: Uint32Array.from(largest),
      address: pick(a.address, largest),
      size: pick(a.bytes, largest),
      from: pick(a.from, largest),
      to: pick(a.to, largest),
      stack: pick(a.stack, largest),
      tags: pick(a.tags, largest),
    };
  }
}
