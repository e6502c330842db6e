// What the page knows of recordings. Most types are those of the answers themselves, written from Rust (generated/); here stand
// those in which the page has put texts in the places of their positions.
//
// An event is numbered from 0. A moment is a position between events: moment 0 lies before the first event, moment n after
// event n - 1, so there is one moment more than there are events. Bytes are bytes; times are microseconds after the
// device's first event. NONE stands for "no such thing" in columns of numbers.

import type { Spans } from '../numbers/spans';
import type * as sent from './generated/view';
import type { ByKind, ByteKind, CATEGORIES, CODES, Window } from './generated/view';

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
  /** Of frames of generated code what they stand for. */
  generated: Map<number, Generated>;
}

/** A node of a graph that was compiled. */
export interface Generated {
  node: string | null;
  /** The lines of the program that it came from. */
  original: string | null;
}

/** A picture together with the window that was asked for. */
export type Picture = sent.Picture & { window: Window };
