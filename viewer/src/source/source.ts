// What the page can ask of a recording. Two things answer: the local server (http.ts), and the data inside a
// self-contained page (local.ts).
//
// Words: an event is numbered from 0. A moment is a position between events: moment 0 lies before the first event,
// moment n after event n - 1, and there are events + 1 of them. Bytes are bytes; times are microseconds after the
// device's first event. NONE stands for "no such thing" in columns of numbers.

import type { ReplayDevice, ReportDevice } from './told';

export const NONE = 0xffff_ffff;

/** Kinds of bytes, in the order of columns and tables everywhere. */
export const KINDS = ['requested', 'allocated', 'active', 'reserved'] as const;
export type ByteKind = (typeof KINDS)[number];

/** What the timeline stacks: live allocations by one kind of bytes, or reserved ranges. */
export type Stacked = ByteKind;

/** What x stands for: moments, or microseconds after the first event. */
export type Axis = 'events' | 'time';

/** PyTorch counts what was requested of all active blocks: where blocks wait for other streams, it can exceed allocated. */
export interface Counters {
  requested: number;
  allocated: number;
  active: number;
  reserved: number;
}

export interface Peak {
  bytes: number;
  moment: number;
}

/** What an allocation or event carries beside numbers and stack. */
export interface Tags {
  stream: number;
  /** Null where the recording has no pool ids. [0, 0] is the default pool. */
  pool: [number, number] | null;
  category: string | null;
  compile_context: string | null;
  user_metadata: string | null;
}

/** A point worth a mark on the time axis. */
export interface Mark {
  event: number;
  time_us: number | null;
  kind: 'oom' | 'snapshot';
  bytes: number;
}

/** One device of a file. */
export interface Device {
  device: number;
  events: number;
  allocations: number;
  /** Of the first event, since the Unix epoch; null without times: then the axis is events only. */
  origin_us: number | null;
  duration_us: number | null;
  peaks: Record<ByteKind, Peak>;
  start: Counters;
  end: Counters;
  /** Allocations that were live before recording began. */
  preexisting: number;
  marks: Mark[];
  tags: Tags[];
  /** Why numbers may not be exact; empty where they are. */
  doubts: string[];
}

/** One file. */
export interface Recording {
  name: string;
  format: string;
  /** PYTORCH_CUDA_ALLOC_CONF as recorded. */
  conf: string | null;
  /** Settings and facts of the file, in the order to show them. */
  facts: [string, string][];
  /** The same for the allocator's settings. */
  settings: [string, string][];
  devices: Device[];
}

/** Whose code a frame is, by number in the answer. */
export const CODES = ['user', 'library', 'native'] as const;
export type Code = (typeof CODES)[number];

/** Names of a file: strings once, frames and stacks by number. A frame's label is what people read. */
export interface Names {
  /** `model/attention.py:42 forward`, short. */
  label: string[];
  file: string[];
  line: number[];
  function: string[];
  code: Code[];
  /** Stack `i` is `frames.subarray(ends[i-1] ?? 0, ends[i])`, innermost first. */
  ends: Uint32Array;
  frames: Uint32Array;
  /** The frame that names a stack, of each stack; NONE where it has none. */
  own: Uint32Array;
}

/** What part of the timeline to draw, how large. */
export interface Window {
  stacked: Stacked;
  axis: Axis;
  /** Left and right end on the axis. */
  from: number;
  to: number;
  /** Pixels. */
  width: number;
  height: number;
  /** Bytes at the bottom and at the top; `high` null fits what is there. */
  low: number;
  high: number | null;
  /** Where `high` is null: leave room for the reserved line, too. */
  fitReserved: boolean;
}

/** The items (allocations or reserved ranges) of a picture, as columns. */
export interface Items {
  /** Number of the allocation or range. */
  id: Uint32Array;
  address: Float64Array;
  /** Bytes as stacked. */
  bytes: Float64Array;
  /** Bytes of the block or range, whatever is stacked. */
  size: Float64Array;
  /** Half-open range of moments; `to` NONE: never freed. */
  from: Uint32Array;
  to: Uint32Array;
  stack: Uint32Array;
  tags: Uint32Array;
}

/**
 * A picture of a window: each pixel column shows the moment in it at which the stacked bytes were highest, so that no
 * peak is lost at any zoom; each row shows what covers its middle.
 *
 * Pixel columns that show the same moment share a column here. Column `c` has the runs
 * `start[c] .. start[c + 1]`, from the bottom up: run `r` shows item `item[r]` below row `end[r]` (and above the end of
 * the run before it). Row 0 is the bottom. Above the last run nothing is live. Item NONE: what lies below is empty.
 */
export interface Picture {
  window: Window;
  low: number;
  high: number;
  column: Uint32Array;
  moment: Uint32Array;
  start: Uint32Array;
  item: Uint32Array;
  end: Uint16Array;
  items: Items;
  /** Exact highest value within each pixel, by kind. */
  highest: Record<ByteKind, Float64Array>;
}

/** What is allocated at a moment, grouped by stack, tags and how it is known. */
export interface Live {
  moment: number;
  counters: Counters;
  stack: Uint32Array;
  tags: Uint32Array;
  /** 0: recorded. 1: live before recording began. 2: the same, and the stack is where it was freed. */
  origin: Uint8Array;
  bytes: Float64Array;
  requested: Float64Array;
  count: Uint32Array;
}

/**
 * Segments and blocks at a moment, both by address. What no block covers is free. An expandable segment comes in the pieces
 * in which it was mapped; blocks reach across pieces that touch.
 */
export interface Layout {
  moment: number;
  counters: Counters;
  segments: {
    address: Float64Array;
    bytes: Float64Array;
    tags: Uint32Array;
    /** 0: small pool, 1: large, 2: unknown. */
    kind: Uint8Array;
    expandable: Uint8Array;
    stack: Uint32Array;
    from: Uint32Array;
  };
  blocks: {
    allocation: Uint32Array;
    address: Float64Array;
    bytes: Float64Array;
    requested: Float64Array;
    /** 1: freed, waiting for another stream. */
    pending: Uint8Array;
    stack: Uint32Array;
    tags: Uint32Array;
    from: Uint32Array;
  };
}

/** Actions as snapshots name them, by number in `Events.action`: the order of `Action::KNOWN` in vramscope-trace. */
export const ACTIONS = [
  'alloc', 'free_requested', 'free_completed', 'segment_alloc', 'segment_free', 'segment_map', 'segment_unmap',
  'snapshot', 'oom', 'annotate', 'user_defined', 'free', 'unknown',
] as const;

/** Some events, in order. */
export interface Events {
  first: number;
  action: Uint8Array;
  address: Float64Array;
  bytes: Float64Array;
  /** NaN where not recorded. */
  time_us: Float64Array;
  stack: Uint32Array;
  tags: Uint32Array;
  /** The allocation it makes or frees, or NONE. */
  allocation: Uint32Array;
}

/** Everything about one allocation. */
export interface Allocation {
  id: number;
  address: number;
  /** Which allocation at this address it is, from 0. */
  version: number;
  requested: number;
  bytes: number;
  from: number;
  freed: number | null;
  to: number | null;
  from_us: number | null;
  freed_us: number | null;
  to_us: number | null;
  stack: number | null;
  free_stack: number | null;
  tags: number;
  /** As in `Live.origin`. */
  origin: number;
  size_inferred: boolean;
  /** Allocated bytes right after it. */
  total: number;
}

/** What to look for; a thing matches that has all that is named. Bytes are blocks' bytes. */
export interface Query {
  /** Sorted; null: any. */
  stacks: number[] | null;
  /** Null: any. */
  tags: number[] | null;
  /** An address inside of it. */
  address: number | null;
  /** Which allocation at that address, from 0, where the address is its beginning; null: any. */
  version: number | null;
  min: number | null;
  max: number | null;
}

/** Allocations that match: how many, and the largest of them. */
export interface Found {
  count: number;
  bytes: number;
  id: Uint32Array;
  address: Float64Array;
  size: Float64Array;
  from: Uint32Array;
  to: Uint32Array;
  stack: Uint32Array;
  tags: Uint32Array;
}

/** Annotated regions: one entry a run, outermost first. */
export interface Regions {
  names: string[];
  name: Uint32Array;
  depth: Uint8Array;
  from: Uint32Array;
  to: Uint32Array;
  from_us: Float64Array;
  to_us: Float64Array;
}

/** Every reserved range of the recording by first moment, and the high-water marks of pools. */
export interface Segments {
  address: Float64Array;
  bytes: Float64Array;
  from: Uint32Array;
  /** NONE: still there at the end. */
  to: Uint32Array;
  tags: Uint32Array;
  kind: Uint8Array;
  expandable: Uint8Array;
  stack: Uint32Array;
  pools: { pool: [number, number] | null; stream: number; peak_reserved: number; peak_active: number }[];
}

/**
 * Where answers come from. `file` and `device` are positions in `recordings()` and in its `devices`. What may take seconds
 * ends, on the server too, when its signal says that the answer is no longer wanted; it fails then.
 */
export interface Source {
  /** Resolves when every file is read. Null stands where a file was closed. */
  recordings(): Promise<(Recording | null)[]>;
  names(file: number): Promise<Names>;
  picture(file: number, device: number, window: Window, unwanted?: AbortSignal): Promise<Picture>;
  live(file: number, device: number, moment: number, unwanted?: AbortSignal): Promise<Live>;
  layout(file: number, device: number, moment: number, unwanted?: AbortSignal): Promise<Layout>;
  events(file: number, device: number, first: number, count: number): Promise<Events>;
  allocation(file: number, device: number, id: number): Promise<Allocation>;
  search(file: number, device: number, query: Query, unwanted?: AbortSignal): Promise<Found>;
  regions(file: number, device: number): Promise<Regions>;
  segments(file: number, device: number): Promise<Segments>;
  report(file: number, device: number, unwanted?: AbortSignal): Promise<ReportDevice>;
  replay(file: number, device: number, unwanted?: AbortSignal): Promise<ReplayDevice>;
  /** Adds a file from the disk; gives its position. Null where this source cannot (the self-contained page). */
  open: ((file: File) => Promise<number>) | null;
  /** Closes a file, so that its memory is free. Null where this source cannot. */
  close: ((file: number) => Promise<void>) | null;
}
