// The page's types for recordings. Most are generated from the Rust answers (generated/); those here have texts in place of positions
// in a list of texts.
//
// Events are numbered from 0. A moment is a position between events: moment 0 is before the first event, moment n after event n - 1, so
// there is one moment more than there are events. Times are microseconds after the device's first event. NONE means "absent" in columns
// of numbers.

import type { Spans } from '../numbers/spans';
import type * as sent from './generated/questions';
import type { ByKind, ByteKind, CATEGORIES, CODES, Window } from './generated/questions';

export * from './generated/questions';
export * from './generated/server';

/** The kinds of bytes, in the order of all tables. */
export const KINDS = ['requested', 'allocated', 'active', 'reserved'] as const satisfies readonly ByteKind[];

export type Counters = ByKind<number>;

type TextTag = 'layer' | 'recorded_category' | 'compile_context' | 'user_metadata';

/** The recorded tags of an allocation or event: stream, pool and texts. */
export type Tags = Omit<sent.Tags, TextTag> & Record<TextTag, string | null>;

export type Category = (typeof CATEGORIES)[number];

/** An allocation's category and the evidence for it, as half a sentence about "it". */
export type Purpose = Omit<sent.Purpose, 'category'> & { category: Category };

/** The steps of a program, by number from 0: their memory, and their ends on the axis. */
export type Steps = Omit<sent.Steps, 'bounds' | 'bounds_us'> & Spans;

/** The phases of steps, in order: their memory, and the moments before their first event and after their last. */
export type Phases = Omit<sent.Phases, keyof Spans> & Spans;

/** The categories, and the steps and phases derived from them. */
export interface Meaning {
  purposes: Purpose[];
  steps: Steps | null;
  phases: Phases | null;
}

/** One device of a file. Its purposes are null until they are known, and so are its steps and phases, which it may lack. */
export type Device = Omit<sent.Device, 'tags' | 'tag_texts' | 'purposes' | 'steps' | 'phases'> & {
  tags: Tags[];
  purposes: Purpose[] | null;
  steps: Steps | null;
  phases: Phases | null;
};

/** The tables that positions in answer columns refer to. */
export type Tables = Pick<Device, 'tags' | 'purposes'>;

/** One open file. */
export type Recording = Omit<sent.Recording, 'devices'> & { devices: Device[] };

/** The origin of a frame's code. */
export type Code = (typeof CODES)[number];

/** Names of a file: frames and stacks by number. */
export interface Names {
  /** A short label: `model/attention.py:42 forward`. */
  label: string[];
  file: string[];
  line: number[];
  function: string[];
  code: Code[];
  /** The short path of each frame's file, empty for compiled code; and its short function. */
  short_file: string[];
  short_function: string[];
  /** The library of each frame; null for the user's code. */
  library: (string | null)[];
  /** Stack `i` is `frames.subarray(ends[i-1] ?? 0, ends[i])`, innermost first. */
  ends: Uint32Array;
  frames: Uint32Array;
  /** Per stack, the frame that names it, or NONE. */
  own: Uint32Array;
  /** The sources of frames in generated code. */
  generated: Map<number, Generated>;
}

/** A node of a compiled graph. */
export interface Generated {
  node: string | null;
  /** The program lines that it came from. */
  original: string | null;
}

/** A picture and the requested window. */
export type Picture = sent.Picture & { window: Window };
