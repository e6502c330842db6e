// What the page can ask of a recording. Two things answer: the local server (http.ts), and the data inside a
// self-contained page (local.ts). Most types are those of the answers themselves, written from Rust (generated/); here stand
// those in which the page has put texts in the places of their positions.
//
// An event is numbered from 0. A moment is a position between events: moment 0 lies before the first event, moment n after
// event n - 1, so there is one moment more than there are events. Bytes are bytes; times are microseconds after the
// device's first event. NONE stands for "no such thing" in columns of numbers.

import type { Spans } from '../numbers/spans';
import type * as sent from './generated/view';
import type {
  Allocation,
  Bands,
  ByKind,
  ByteKind,
  CATEGORIES,
  CODES,
  Comparison,
  Events,
  Found,
  Layout,
  Live,
  Query,
  Regions,
  Replay,
  Report,
  Segments,
  Span,
  Window,
} from './generated/view';

export * from './generated/view';

/** Kinds of bytes, in the order of tables everywhere. */
export const KINDS = ['requested', 'allocated', 'active', 'reserved'] as const satisfies readonly ByteKind[];

export type Counters = ByKind<number>;

type TextTag = 'layer' | 'recorded_category' | 'compile_context' | 'user_metadata';

/** What is recorded with an allocation or event besides numbers and a stack: stream, pool and texts. */
export type Tags = Omit<sent.Tags, TextTag> & Record<TextTag, string | null>;

/** What memory is for. */
export type Category = (typeof CATEGORIES)[number];

/** What an allocation is for, and why that is said, as half a sentence about "it". */
export type Purpose = Omit<sent.Purpose, 'category'> & { category: Category };

/** The steps of a program, by their numbers from 0: what each needed, and where it lies on the axis. */
export type Steps = Omit<sent.Steps, 'bounds' | 'bounds_us'> & Spans;

/** What memory is for, and the steps that follow from it. */
export interface Meaning {
  purposes: Purpose[];
  steps: Steps | null;
}

/** One device of a file. Its purposes are null until they are known, and its steps, too, where there are any. */
export type Device = Omit<sent.Device, 'tags' | 'tag_texts' | 'purposes' | 'steps'> & {
  tags: Tags[];
  purposes: Purpose[] | null;
  steps: Steps | null;
};

/** What positions in the columns of answers stand for. */
export type Tables = Pick<Device, 'tags' | 'purposes'>;

/** One open file. */
export type Recording = Omit<sent.Recording, 'devices'> & { devices: Device[] };

/** Whose code a frame is. */
export type Code = (typeof CODES)[number];

/** Names of a file: frames and stacks by number. */
export interface Names {
  /** What people read of a frame: `model/attention.py:42 forward`, short. */
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

/** A picture together with the window that was asked for. */
export type Picture = sent.Picture & { window: Window };

/** A device by the positions of its file and its own. */
export interface DeviceAt {
  file: number;
  device: number;
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
  bands(file: number, device: number, span: Span, unwanted?: AbortSignal): Promise<Bands>;
  /** What memory is for, of a device whose purposes are null: it is found out now. */
  meaning(file: number, device: number): Promise<Meaning>;
  live(file: number, device: number, moment: number, unwanted?: AbortSignal): Promise<Live>;
  layout(file: number, device: number, moment: number, unwanted?: AbortSignal): Promise<Layout>;
  events(file: number, device: number, first: number, count: number): Promise<Events>;
  allocation(file: number, device: number, id: number): Promise<Allocation>;
  search(file: number, device: number, query: Query, unwanted?: AbortSignal): Promise<Found>;
  regions(file: number, device: number): Promise<Regions>;
  segments(file: number, device: number): Promise<Segments>;
  report(file: number, device: number, unwanted?: AbortSignal): Promise<Report>;
  replay(file: number, device: number, unwanted?: AbortSignal): Promise<Replay>;
  /** What changed from a device to another, at their peaks. */
  comparison(a: DeviceAt, b: DeviceAt, unwanted?: AbortSignal): Promise<Comparison>;
  /** Adds a file from the disk; gives its position. Null where this source cannot (the self-contained page). */
  open: ((file: File) => Promise<number>) | null;
  /** Closes a file, so that its memory is free. Null where this source cannot. */
  close: ((file: number) => Promise<void>) | null;
}
