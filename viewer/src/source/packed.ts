// The data inside a self-contained page: one deflated bundle. What its columns mean is described where they are written,
// in crates/vramscope-viewer/src/packed.rs.

import { toNames, toRecording, toRegions, type ToldRecording } from './answers';
import { decode, u8, type Bundle } from './bundle';
import { NONE, type Events, type Names, type Recording, type Regions, type Segments } from './source';
import type { ReplayDevice, ReportDevice } from './told';

interface Head {
  recordings: ToldRecording[];
  files: { devices: { report: ReportDevice; replay: ReplayDevice | null; pools: Segments['pools'] }[] }[];
}

/** Every allocation of a device; `NONE` as a moment: never. */
export interface Allocations {
  address: Float64Array;
  requested: Float64Array;
  bytes: Float64Array;
  from: Uint32Array;
  freed: Uint32Array;
  to: Uint32Array;
  stack: Uint32Array;
  tags: Uint32Array;
  origin: Uint8Array;
  inferred: Uint8Array;
}

export type AllEvents = Omit<Events, 'first'>;

/** One device, unpacked. */
export interface Unpacked {
  allocations: Allocations;
  events: AllEvents;
  /** Reserved ranges by address. */
  ranges: Omit<Segments, 'pools'>;
  regions: Regions;
}

/** Reads variable-length numbers one after the other. */
class Numbers {
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

  signed(): number {
    const n = this.next();
    return n % 2 === 0 ? n / 2 : -(n + 1) / 2;
  }
}

export class Packed {
  private constructor(private readonly bundle: Bundle<Head>) {}

  static async inflate(deflated: Uint8Array<ArrayBuffer>): Promise<Packed> {
    const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    return new Packed(decode<Head>(await new Response(stream).arrayBuffer()));
  }

  get head(): Head {
    return this.bundle.json;
  }

  recordings(): Recording[] {
    return this.head.recordings.map(toRecording);
  }

  names(file: number): Names {
    return toNames(this.nested(`${file}/names`));
  }

  device(file: number, device: number): Unpacked {
    const column = (name: string) => u8(this.bundle, `${file}/${device}/${name}`);
    const numbers = (name: string) => new Numbers(column(name));
    const allocations = unpackAllocations(column, numbers);
    return {
      allocations,
      events: unpackEvents(column, numbers, allocations),
      ranges: unpackRanges(column, numbers),
      regions: toRegions(this.nested(`${file}/${device}/regions`)),
    };
  }

  /** A bundle inside the bundle; its columns must begin at multiples of eight of a buffer of its own. */
  private nested<J>(name: string): Bundle<J> {
    return decode<J>(u8(this.bundle, name).slice().buffer);
  }
}

type Column = (name: string) => Uint8Array;
type Reader = (name: string) => Numbers;

const f64s = (length: number, value: (i: number) => number) => fill(new Float64Array(length), value);
const u32s = (length: number, value: (i: number) => number) => fill(new Uint32Array(length), value);

function fill<T extends Float64Array | Uint32Array | Uint8Array>(into: T, value: (i: number) => number): T {
  for (let i = 0; i < into.length; i += 1) into[i] = value(i);
  return into;
}

/** Running sums of signed differences. */
function sums(numbers: Numbers): () => number {
  let sum = 0;
  return () => (sum += numbers.signed());
}

/** A number that may be missing. */
const orNone = (n: number) => (n === 0 ? NONE : n - 1);
/** A moment counted from another. */
const after = (n: number, other: number) => (n === 0 ? NONE : other + n - 1);
const rounded = (requested: number) => Math.ceil(Math.max(requested, 1) / 512) * 512;

function unpackAllocations(column: Column, numbers: Reader): Allocations {
  const marks = column('origin');
  const count = marks.length;
  const distinct: number[] = [];
  const nextDistinct = sums(numbers('addresses'));
  const which = numbers('address');
  const address = f64s(count, () => {
    const n = which.next();
    while (distinct.length <= n) distinct.push(nextDistinct());
    return distinct[n]!;
  });
  const [requests, beyond, births, frees, ends] =
    [numbers('requested'), numbers('beyond'), sums(numbers('from')), numbers('freed'), numbers('to')];
  const [stacks, tags] = [numbers('stack'), numbers('tags')];
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
    origin: fill(new Uint8Array(count), (i) => marks[i]! & 3),
    inferred: fill(new Uint8Array(count), (i) => marks[i]! >> 2),
  };
}

function unpackEvents(column: Column, numbers: Reader, of: Allocations): AllEvents {
  const action = column('event_action');
  const count = action.length;
  const back = numbers('event_allocation');
  let seen = 0;
  const allocation = u32s(count, () => {
    const n = back.next();
    if (n === 0) return NONE;
    const id = seen - (n - 1);
    seen = Math.max(seen, id + 1);
    return id;
  });
  const hasTimes = column('event_time').length > 0;
  const time = sums(numbers('event_time'));
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
  const lone = ['address', 'bytes', 'stack', 'tags'].map((name) => numbers(`lone_${name}`)) as
    [Numbers, Numbers, Numbers, Numbers];
  const odd = oddSizes(numbers);
  const free = { stack: numbers('free_stack'), tags: numbers('free_tags') };
  for (let i = 0; i < count; i += 1) {
    const id = allocation[i]!;
    if (id === NONE) {
      events.address[i] = lone[0].next();
      events.bytes[i] = lone[1].next();
      events.stack[i] = orNone(lone[2].next());
      events.tags[i] = lone[3].next();
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

/** Sizes of the events that tell another than their allocation. */
function oddSizes(numbers: Reader): Map<number, number> {
  const [event, size] = [numbers('odd_event'), numbers('odd_bytes')];
  const sizes = new Map<number, number>();
  for (let at = 0; !event.atEnd; ) {
    at += event.signed();
    sizes.set(at, size.next());
  }
  return sizes;
}

function unpackRanges(column: Column, numbers: Reader): Unpacked['ranges'] {
  const marks = column('range_kind');
  const count = marks.length;
  const address = sums(numbers('range_address'));
  const [size, births, ends, tags, stacks] = ['bytes', 'from', 'to', 'tags', 'stack'].map((name) =>
    numbers(`range_${name}`)) as [Numbers, Numbers, Numbers, Numbers, Numbers];
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
