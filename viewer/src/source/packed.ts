// The data inside a self-contained page, deflated. What its columns mean is described where they are written, in
// crates/vramscope-viewer/src/packed.rs.

import { toMeaning, toNames, toRecording } from './answers';
import { decode } from './columns';
import type * as sent from './generated/view';
import {
  NONE,
  type DeviceAt,
  type Events,
  type Meaning,
  type Names,
  type Recording,
  type Regions,
  type Segments,
} from './source';

/** Every allocation of a device, in columns by its number. A moment that is `NONE` never comes. */
export interface Allocations {
  address: Float64Array;
  requested: Float64Array;
  bytes: Float64Array;
  from: Uint32Array;
  freed: Uint32Array;
  to: Uint32Array;
  stack: Uint32Array;
  tags: Uint32Array;
  purpose: Uint8Array;
  origin: Uint8Array;
  inferred: Uint8Array;
}

export type AllEvents = Omit<Events, 'first'>;

/** The data of one device, unpacked. */
export interface Unpacked {
  allocations: Allocations;
  events: AllEvents;
  /** Reserved ranges by address. */
  ranges: Omit<Segments, 'pools'>;
  regions: Regions;
}

/** Reads variable-length numbers (LEB128: seven bits a byte, the lowest first) one after the other. */
class VarintReader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get atEnd(): boolean {
    return this.at >= this.bytes.length;
  }

  next(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++] ?? 0;
      // Beyond 2^53 the last bits are lost; no address or size is as large.
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  /** A signed number, written by turns: 0, -1, 1, -2 ... */
  signed(): number {
    const n = this.next();
    return n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  }
}

export class Packed {
  private constructor(private readonly sent: sent.Packed) {}

  static async inflate(deflated: Uint8Array<ArrayBuffer>): Promise<Packed> {
    const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Packed(decode<sent.Packed>(await new Response(stream).arrayBuffer()));
  }

  recordings(): Recording[] {
    return this.sent.recordings.map(toRecording);
  }

  names(file: number): Names {
    return toNames(this.file(file).names);
  }

  meaning(file: number, device: number): Meaning {
    return toMeaning(this.sentMeaning(file, device));
  }

  /** The category of each purpose, as a position in `CATEGORIES`. */
  categories(file: number, device: number): number[] {
    return this.sentMeaning(file, device).purposes.map((purpose) => purpose.category);
  }

  private sentMeaning(file: number, device: number): sent.Meaning {
    const { purposes, steps } = known(this.sent.recordings[file]?.devices[device], 'device');
    return { purposes: purposes ?? [], steps };
  }

  /** A device as it was sent: its report, its replay, the peaks of its pools. */
  device(file: number, device: number): sent.PackedDevice {
    return known(this.file(file).devices[device], 'device');
  }

  comparison(a: DeviceAt, b: DeviceAt): sent.Comparison {
    const is = (at: number[], of: DeviceAt) => at[0] === of.file && at[1] === of.device;
    const found = this.sent.comparisons.find((one) => is(one.a, a) && is(one.b, b));
    if (!found) throw new Error('this page does not hold what changed between these two; vramscope diff tells');
    return found.comparison;
  }

  unpacked(file: number, device: number): Unpacked {
    const { allocations: packed, events, ranges, regions } = this.device(file, device);
    const allocations = unpackAllocations(packed);
    return { allocations, events: unpackEvents(events, allocations), ranges: unpackRanges(ranges), regions };
  }

  private file(file: number): sent.PackedFile {
    return known(this.sent.files[file], 'file');
  }
}

function known<T>(thing: T | undefined, what: string): T {
  if (thing === undefined) throw new Error(`the page has no such ${what}`);
  return thing;
}

const f64s = (length: number, value: (i: number) => number) => fill(new Float64Array(length), value);
const u32s = (length: number, value: (i: number) => number) => fill(new Uint32Array(length), value);

function fill<T extends Float64Array | Uint32Array | Uint8Array>(into: T, value: (i: number) => number): T {
  for (let i = 0; i < into.length; i += 1) into[i] = value(i);
  return into;
}

/** Reads numbers that are written as signed differences from the one before. */
function sums(reader: VarintReader): () => number {
  let sum = 0;
  return () => (sum += reader.signed());
}

/** A number that may be missing: 0 is none, all others are one more than they mean. */
const orNone = (n: number) => (n === 0 ? NONE : n - 1);
/** A moment that is written as its distance from another: 0 is never, 1 the same moment. */
const after = (n: number, other: number) => (n === 0 ? NONE : other + n - 1);
/** The smallest block that holds a request, in bytes: PyTorch rounds to 512. */
const rounded = (requested: number) => Math.ceil(Math.max(requested, 1) / 512) * 512;

const varints = (column: Uint8Array) => new VarintReader(column);

function unpackAllocations(packed: sent.PackedAllocations): Allocations {
  const marks = packed.origin;
  const count = marks.length;
  const distinct: number[] = [];
  const nextDistinct = sums(varints(packed.addresses));
  const which = varints(packed.address);
  const address = f64s(count, () => {
    const n = which.next();
    while (distinct.length <= n) distinct.push(nextDistinct());
    return distinct[n]!;
  });
  const [requests, beyond, births, frees, ends] = [
    varints(packed.requested),
    varints(packed.beyond),
    sums(varints(packed.from)),
    varints(packed.freed),
    varints(packed.to),
  ];
  const [stacks, tags] = [varints(packed.stack), varints(packed.tags)];
  const requested = f64s(count, () => requests.next());
  const from = u32s(count, births);
  const freed = u32s(count, (i) => after(frees.next(), from[i]!));
  return {
    address,
    requested,
    bytes: f64s(count, (i) => rounded(requested[i]!) + beyond.signed()),
    from,
    freed,
    to: u32s(count, (i) => after(ends.next(), freed[i]!)),
    stack: u32s(count, () => orNone(stacks.next())),
    tags: u32s(count, () => tags.next()),
    purpose: packed.purpose,
    origin: fill(new Uint8Array(count), (i) => marks[i]! & 3),
    inferred: fill(new Uint8Array(count), (i) => marks[i]! >> 2),
  };
}

function unpackEvents(packed: sent.PackedEvents, of: Allocations): AllEvents {
  const { action } = packed;
  const count = action.length;
  const back = varints(packed.allocation);
  let seen = 0;
  const allocation = u32s(count, () => {
    const n = back.next();
    if (n === 0) return NONE;
    const id = seen - (n - 1);
    seen = Math.max(seen, id + 1);
    return id;
  });
  const hasTimes = packed.time.length > 0;
  const time = sums(varints(packed.time));
  const origin = hasTimes ? time() : NaN;
  const events: AllEvents = {
    action,
    address: new Float64Array(count),
    bytes: new Float64Array(count),
    time_us: f64s(count, (i) => (i === 0 ? origin - origin : time() - origin)),
    stack: new Uint32Array(count),
    tags: new Uint32Array(count),
    allocation,
  };
  const lone = {
    address: varints(packed.lone_address),
    bytes: varints(packed.lone_bytes),
    stack: varints(packed.lone_stack),
    tags: varints(packed.lone_tags),
  };
  const odd = oddSizes(packed);
  const free = { stack: varints(packed.free_stack), tags: varints(packed.free_tags) };
  for (let i = 0; i < count; i += 1) {
    const id = allocation[i]!;
    if (id === NONE) {
      events.address[i] = lone.address.next();
      events.bytes[i] = lone.bytes.next();
      events.stack[i] = orNone(lone.stack.next());
      events.tags[i] = lone.tags.next();
      continue;
    }
    events.address[i] = of.address[id]!;
    events.bytes[i] = odd.get(i) ?? of.requested[id]!;
    const makes = of.from[id] === i + 1;
    events.stack[i] = makes ? of.stack[id]! : orNone(free.stack.next());
    events.tags[i] = makes ? of.tags[id]! : free.tags.next();
  }
  return events;
}

/** Bytes of the events that name another size than their allocation has, by the number of the event. */
function oddSizes(packed: sent.PackedEvents): Map<number, number> {
  const [event, size] = [varints(packed.odd_event), varints(packed.odd_bytes)];
  const sizes = new Map<number, number>();
  for (let at = 0; !event.atEnd; ) {
    at += event.signed();
    sizes.set(at, size.next());
  }
  return sizes;
}

function unpackRanges(packed: sent.PackedRanges): Unpacked['ranges'] {
  const marks = packed.kind;
  const count = marks.length;
  const address = sums(varints(packed.address));
  const [size, births, ends] = [varints(packed.bytes), varints(packed.from), varints(packed.to)];
  const [tags, stacks] = [varints(packed.tags), varints(packed.stack)];
  const from = u32s(count, () => births.next());
  return {
    address: f64s(count, address),
    bytes: f64s(count, () => size.next()),
    from,
    to: u32s(count, (i) => after(ends.next(), from[i]!)),
    tags: u32s(count, () => tags.next()),
    kind: fill(new Uint8Array(count), (i) => marks[i]! & 3),
    expandable: fill(new Uint8Array(count), (i) => marks[i]! >> 2),
    stack: u32s(count, () => orNone(stacks.next())),
  };
}
