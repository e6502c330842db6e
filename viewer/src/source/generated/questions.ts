// Written by the tests of crates/vramscope-session from src/questions and src/requests:
// `INSTA_UPDATE=always cargo test -p vramscope-session`.

import type { ReplayDevice, ReportDevice, ReportSection } from './report';

/** Stands for "no such thing" in columns of numbers. */
export const NONE = 4294967295;

/** Actions of events, as snapshots name them. */
export const ACTIONS = [
  'alloc',
  'free_requested',
  'free_completed',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'snapshot',
  'oom',
  'annotate',
  'user_defined',
  'free',
  'unknown',
] as const;

/** Whose code a frame is. */
export const CODES = [
  'user',
  'library',
  'native',
] as const;

/** How an allocation is known. */
export const ORIGINS = [
  '',
  'live before recording',
  'live before recording; where it was freed',
] as const;

/** Kinds of segments. */
export const SEGMENT_KINDS = [
  'small',
  'large',
  'unknown',
] as const;

/** What memory is for. */
export const CATEGORIES = [
  'parameter',
  'buffer',
  'gradient',
  'optimizer_state',
  'activation',
  'input',
  'temporary',
  'communication',
  'kv_cache',
  'workspace',
  'preexisting',
  'unknown',
] as const;

/** What is marked along a recording. */
export const MARKERS = [
  'oom',
  'snapshot',
  'step',
  'region',
] as const;

/** The phases of a step. */
export const PHASES = [
  'forward',
  'backward',
  'optimizer',
  'zero_grad',
] as const;

/**
 * A kind of bytes. The timeline stacks live allocations by one of them, or reserved ranges.
 */
export type ByteKind = "requested" | "allocated" | "active" | "reserved";

/**
 * The axis of the timeline: moments, or microseconds after the first event.
 */
export type Axis = "events" | "time";

/**
 * The grouping of live allocations, as in `vramscope report --by`.
 */
export type By = "stack" | "line" | "function" | "file" | "module" | "pool" | "stream" | "category" | "layer" | "step" | "size";

/**
 * The frames of a stack that become nodes of the call tree: user code, Python code, or all.
 */
export type CallsOf = "own" | "python" | "all";

/**
 * All facts about one allocation.
 */
export type Allocation = {
  id: number;
  address: number;
  /** The number of earlier allocations at the same address. */
  version: number;
  requested: number;
  /** The bytes of its block. */
  bytes: number;
  /** The moment after the allocation; 0 if it was live before recording. */
  from: number;
  /** The moment after its free. */
  freed: number | null;
  /** The moment after its memory became available again. It is later than `freed` if other streams still used the memory. */
  to: number | null;
  from_us: number | null;
  freed_us: number | null;
  to_us: number | null;
  stack: number | null;
  free_stack: number | null;
  /** The forward pass of this backward allocation, if anomaly mode recorded it: lines of text, outermost call first. */
  forward: Array<string>;
  tags: number;
  /** A position in the device's `purposes`. */
  purpose: number;
  /** A position in `ORIGINS`. */
  origin: number;
  size_inferred: boolean;
  /** Allocated bytes right after the allocation. */
  total: number;
  /** Null if its accesses are unknown. */
  uses: Uses | null;
  /** Null if the program did not describe it. */
  tensor: Tensor | null;
};

/**
 * The sort column of the table. Missing values come last in both directions; among equal values, the older allocation comes
 * first.
 */
export type AllocationColumn = "allocation" | "address" | "requested_bytes" | "block_bytes" | "alloc_event" | "free_event" | "lifetime_events" | "lifetime_us" | "stream" | "pool" | "category" | "line" | "layer" | "step" | "region";

/**
 * A range of rows of the allocation table.
 */
export type Allocations = {
  /** The number of rows in the whole table, and the sum of their bytes. */
  count: number;
  bytes: number;
  /** The index of the first returned row. */
  first: number;
  /** The row of the requested allocation; null if it is not in the table. */
  found_row: number | null;
  /** The indices of the allocations. */
  id: U32s;
  address: F64s;
  /** The number of earlier allocations at the same address. */
  version: U32s;
  requested: F64s;
  /** The bytes of its block. */
  bytes_of: F64s;
  /** The moments after the allocation and after its free. */
  from: U32s;
  freed: U32s;
  /** NaN if unknown. */
  from_us: F64s;
  freed_us: F64s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`. */
  purpose: U8s;
  /** Positions in `ORIGINS`. */
  origin: U8s;
  /** The step of the allocation, from 0. */
  step: U32s;
  /** The innermost annotated region around the allocation: a position in `regions`. */
  region: U32s;
  regions: Array<string>;
};

/**
 * Requests a range of rows of the allocation table.
 */
export type AllocationsQuery = {
  search: Query | null;
  among: Among;
  sort: AllocationColumn;
  descending: boolean;
  /** The first row, and the number of rows. */
  first: number;
  count: number;
  /** The index of an allocation whose row is requested. */
  find: number | null;
};

/**
 * The allocations in the table, before any search.
 */
export type Among = {
  "are": "all"
} | {
  "are": "live_at";
  moment: number;
} | {
  "are": "within";
  from: number;
  to: number;
};

/**
 * Bytes, and their number of blocks.
 */
export type Amount = {
  bytes: number;
  count: number;
};

/**
 * The request of an event.
 */
export type Asked = {
  event: number;
  /** After rounding. */
  bytes: number;
  failed: boolean;
  /** The device's free bytes, if the request failed. */
  device_free: number | null;
  /** The position of the largest hole that would have served the request if it were large enough. */
  largest: number | null;
};

/**
 * One category over time.
 */
export type Band = {
  /** A position in `CATEGORIES`. */
  category: number;
  /** Its bytes in each column. */
  bytes: F64s;
};

/**
 * Allocated bytes by category. Each pixel column shows the first moment of its allocated peak; there, the categories sum to
 * the allocated bytes.
 */
export type Bands = {
  /** The column of each pixel column; `NONE` outside of the recording. */
  column: U32s;
  /** The moment that a column shows. */
  moment: U32s;
  /** Categories with bytes, in the order of `CATEGORIES`. */
  bands: Array<Band>;
};

/**
 * Bytes by kind. Requested bytes are PyTorch's sum over active blocks, so they can exceed the allocated bytes while blocks
 * wait for other streams.
 */
export type ByKind<T> = {
  requested: T;
  allocated: T;
  active: T;
  reserved: T;
};

/**
 * A transform of the call tree. Transforms that keep only some allocations are also a condition of a search.
 */
export type CallTransform = {
  "does": "focus";
  frames: FramesOf;
} | {
  "does": "focus_path";
  calls: CallsOf;
  inverted: boolean;
  path: Array<string>;
} | {
  "does": "drop";
  frames: FramesOf;
} | {
  "does": "merge";
  frames: FramesOf;
} | {
  "does": "collapse";
  frames: FramesOf;
} | {
  "does": "collapse_libraries";
  expanded: Array<string>;
} | {
  "does": "collapse_recursion";
  frames: FramesOf;
};

/**
 * The call tree of the live allocations at a moment, and of those at another. Callers precede callees, largest weight first.
 */
export type Calls = {
  /** The position of the caller; `NONE` for a root. */
  parent: U32s;
  /** The frame; `NONE` for a node without a frame. */
  frame: U32s;
  /** The meaning of a node without a frame: a position in `words`. */
  word: U32s;
  words: Array<string>;
  /** The position in `words` from which they name collapsed frames. */
  first_group: number;
  /** The bytes and blocks of the node and its descendants, now and before. */
  bytes: F64s;
  count: U32s;
  bytes_before: F64s;
  count_before: U32s;
  /** The matching bytes. */
  found: F64s;
  /** The larger of the bytes now and before, summed from the leaves. */
  weight: F64s;
};

/**
 * The changes from one recording to another at the peaks of their allocated bytes, in the wording of `vramscope diff`.
 */
export type Comparison = {
  /** The difference of the peaks, in a sentence. */
  verdict: string;
  /** Most significant first. */
  changes: Array<WhatChanged>;
  /** Empty if one of the two recordings has no categories. */
  categories: Array<Held>;
};

/**
 * The confidence in a device's numbers, in the wording of the report.
 */
export type Confidence = {
  is_exact: boolean;
  /** The verdict in a few words. */
  title: string;
  /** Why numbers may be inexact, one sentence each; empty if they are exact. */
  limitations: Array<string>;
  /** Whether a replay under the recorded settings reproduced the recording, in a sentence. */
  replay: string;
  /** A sentence if the oldest events were dropped, with advice on how to record them. */
  dropped: string | null;
};

/**
 * One device of a file.
 */
export type Device = {
  /** Its number in the recording; -1 for the host. */
  device: number;
  events: number;
  allocations: number;
  /** The time of the first event, in microseconds since the Unix epoch; null if events have no times. */
  origin_us: number | null;
  /** Microseconds from the first event to the last. */
  duration_us: number | null;
  peaks: ByKind<Peak>;
  /** Bytes before the first event. */
  start: ByKind<number>;
  /** Bytes after the last event. */
  end: ByKind<number>;
  /** The number of allocations that were live before recording. */
  preexisting: number;
  markers: Array<Marker>;
  /** The distinct combinations of tags; allocations and events refer to them by position. */
  tags: Array<Tags>;
  /** The distinct texts of `tags`. */
  tag_texts: Array<string>;
  /** The categories of allocations, which refer to them by position. Null for a long recording before they are computed. */
  purposes: Array<Purpose> | null;
  /** The steps of the program. Null if it does not repeat itself, and while `purposes` is null. */
  steps: Steps | null;
  /** The phases of steps. Null if none are known, and while `purposes` is null. */
  phases: Phases | null;
  confidence: Confidence;
};

/**
 * A question for the changes from one recording to another.
 */
export type DiffRequest = {
  /** Only this device */
  device?: number | null;
  /** Compare at the peaks of step N (counted from 1) instead of at the peaks of the recordings */
  at_step?: number | null;
  /** Bytes that the change from A to B should free, as 2GiB: state how much of it is free at the peaks and at the end */
  promised?: number | null;
};

/**
 * An interval of the recording for comparison.
 */
export type EarlierPart = {
  from: number;
  to: number;
  title: string;
};

/**
 * A range of events, in order.
 */
export type Events = {
  /** The index of the first event. */
  first: number;
  /** A position in `ACTIONS`. */
  action: U8s;
  address: F64s;
  bytes: F64s;
  /** NaN if no time was recorded. */
  time_us: F64s;
  stack: U32s;
  tags: U32s;
  /** The allocation that the event starts or frees. */
  allocation: U32s;
};

/**
 * A column of `f64`.
 */
export type F64s = Float64Array;

/**
 * The first difference between two sequences of changes of the allocated bytes.
 */
export type FirstDifference = {
  /** The number of changes before the difference. */
  shared: number;
  /** Whether there is no difference. */
  is_same: boolean;
  /** The moments right after the first change that differs; null if the interval has no further change. */
  moment: number | null;
  other_moment: number | null;
};

/**
 * Requests the first difference between the allocated bytes over an interval of each of two devices.
 */
export type FirstDifferenceQuery = {
  /** The first and the last moment of the interval. */
  from: number;
  to: number;
  /** The position of the other file, and of the device in it. */
  other_file: number;
  other_device: number;
  other_from: number;
  other_to: number;
};

/**
 * The matches of a search: their number, a bit set, and the largest of them.
 */
export type Found = {
  count: number;
  /** The bytes of all matches, summed over the recording. */
  bytes: number;
  /** A bit for each allocation, starting with the lowest bit of the first byte: 1 for a match. */
  allocations: U8s;
  /** The same for each reserved range. */
  ranges: U8s;
  /** The indices of the largest matches. */
  id: U32s;
  /** For each of `CATEGORIES`: 0 if the search cannot match it, judged by its category conditions. */
  categories: Array<number>;
  /** Why conditions are ignored. */
  unclear: Array<string>;
  /** Whether no condition is valid, so that everything matches. */
  is_empty: boolean;
};

/**
 * The part of a stack in which a text is searched.
 */
export type FrameField = "any" | "file" | "function" | "line";

/**
 * Frames that a transform is about.
 */
export type FramesOf = {
  "of": "function";
  name: string;
  file: string;
} | {
  "of": "file";
  name: string;
} | {
  "of": "library";
  name: string;
};

/**
 * The bytes of one group.
 */
export type GroupShare = {
  /** As in `Holders`. */
  key: string;
  label: string;
  hue: number;
  bytes: number;
  /** The number of blocks or ranges. */
  count: number;
  /** The matching bytes. */
  found: number;
  /** The stack with the most bytes; null if none was recorded. */
  stack: number | null;
};

/**
 * The groups of a device, assigned to stacks or to tags.
 */
export type Groups = {
  /** The hue of each group: a hash of its name, equal in every recording; 0 for a group without a known name. Groups that cover most of the timeline, or of its peak, come first. */
  hue: U32s;
  /** The group of each stack of the file; `NONE` if the device does not use it. Empty if groups are assigned to tags. */
  stack: U32s;
  /** The group of allocations without a stack. */
  no_stack: number;
  /** The group of each of the device's tags; empty if groups are assigned to stacks. */
  tags: U32s;
  /** The hue of each frame of the file, for call trees. Empty unless grouped by line, function, file or module. */
  frame: U32s;
};

/**
 * An interval of the recording, and its amounts.
 */
export type GroupsOfInterval = {
  from: number;
  to: number;
  /** For example `backward of step 2` or `events 10 to 99`. */
  title: string;
  /** A summary in one line. */
  headline: string;
  /** Microseconds from its first event to its last; null without times. */
  lasted_us: number | null;
  /** The peak of allocated bytes in the interval, and its first moment. */
  highest: number;
  highest_moment: number;
  /** The amounts of all allocations. */
  all: SpentAmounts;
  /** The amounts of the allocations that match the search. */
  found: SpentAmounts;
  /** Bytes of each group. */
  before: F64s;
  allocated: F64s;
  freed: F64s;
  temporary: F64s;
  survived: F64s;
  at_highest: F64s;
  after: F64s;
  /** The number of blocks that each group allocated. */
  count: U32s;
};

/**
 * Requests the groups by which a picture is colored.
 */
export type GroupsQuery = {
  by: By;
};

/**
 * The bytes of a line or a category in both recordings.
 */
export type Held = {
  name: string;
  a: number;
  b: number;
};

/**
 * The amounts of the groups at a moment.
 */
export type HeldAt = {
  moment: number;
  counters: ByKind<number>;
  bytes: F64s;
  requested: F64s;
  /** The number of blocks. */
  count: U32s;
  /** The stack with the most bytes of each group. */
  stack: U32s;
};

/**
 * Groups, each with its bytes at its own peak. The moments of `holders` are those of the overall peak.
 */
export type HighestOfBoth = {
  holders: Holders;
  /** The moment of each group's own peak in the first device; `NONE` if it has no bytes there. */
  moment: U32s;
  /** The same for the other device. */
  other_moment: U32s;
};

/**
 * Requests groups of the live allocations in an interval of each of two devices, each group at its own peak.
 */
export type HighestOfBothQuery = {
  /** The first and the last moment of the interval. */
  from: number;
  to: number;
  by: By;
  search: Query | null;
  /** The position of the other file, and of the device in it. */
  other_file: number;
  other_device: number;
  other_from: number;
  other_to: number;
};

/**
 * Groups of the live allocations at a moment, most bytes first. In a comparison with another moment or recording, the largest
 * growth comes first and the largest decrease last.
 */
export type Holders = {
  /** Identifies each group at any moment of the recording. */
  key: Array<string>;
  /** The display name of each group. */
  label: Array<string>;
  /** The hue of each group: see [`Groups`](super::groups::Groups). */
  hue: U32s;
  /** 1 if the group contains matches, at either moment. */
  found: U8s;
  now: HeldAt;
  /** The compared moment or recording. */
  before: HeldAt | null;
};

/**
 * Requests groups of the live allocations at one moment of each of two devices.
 */
export type HoldersOfBothQuery = {
  moment: number;
  by: By;
  search: Query | null;
  /** The position of the other file, and of the device in it. */
  other_file: number;
  other_device: number;
  other_moment: number;
};

/**
 * The age of a hole.
 */
export type HoleSince = {
  /** The moment since which all of it is free. */
  since: number;
  /** The last allocation in this range; null if the range was reserved at that moment. */
  allocation: number | null;
  /** The stack of that allocation's free. */
  free_stack: number;
};

/**
 * The free blocks at a moment, largest first.
 */
export type Holes = {
  moment: number;
  /** The request of the event right before the moment; null if it was not a request. */
  asked: Asked | null;
  /** The number of all holes, and their total bytes. The columns have only the largest. */
  count: number;
  total: number;
  address: F64s;
  bytes: F64s;
  tags: U32s;
  /** 1 if it is a whole segment, which can be returned to the device. */
  whole: U8s;
  /** Why the hole cannot serve the request: a position in `reasons`, or the length of `reasons` if it can. */
  why: U8s;
  reasons: Array<string>;
  /** The allocations before and after the hole. */
  before: U32s;
  after: U32s;
  /** The amount of free memory between blocks, in a sentence; empty if there is none. */
  pinned: string;
  /** The lines that pin it, most pinned bytes first. */
  pins: Array<PinningLine>;
  /** The number of further lines. */
  more_pins: number;
};

/**
 * The device's `idle`, in sentences.
 */
export type IdleTexts = {
  /** The peak without idle memory, and the limits of this knowledge. */
  told: Array<string>;
  /** For each of `idle.findings`, its line and modules; and when it is idle, and the peak without that. */
  findings: Array<[string, string]>;
  /** The findings that are left out. */
  left_out: string | null;
};

/**
 * Operators and kernels in flight: first those that enclose the whole interval, the innermost first, those of the host before those of
 * the device; then the others by name, most time first.
 */
export type InFlight = {
  /** Whether the trace tells the thread: lanes of other threads are left out. */
  of_thread: boolean;
  /** The number of the lane, and the index of a span in it: the longest of those with this name. */
  lane: U32s;
  span: U32s;
  name: Array<string>;
  /** 1 if the span encloses the whole interval. */
  encloses: U8s;
  /** The number of spans, and their time in microseconds. */
  count: U32s;
  took_us: F64s;
  /** The number of rows that are left out. */
  left_out: number;
};

/**
 * Requests the operators and kernels in flight at an allocation, or between two moments: during the events `from..to`, or at the event
 * before `from` if there are none.
 */
export type InFlightQuery = {
  from: number;
  to: number;
  /** The index of an allocation, which replaces the moments. */
  allocation: number | null;
};

/**
 * The activity in an interval, in groups: most allocated bytes first. In a comparison, the largest increase comes first and
 * the largest decrease last.
 */
export type IntervalAnswer = {
  /** Identifies each group in any interval of the recording. */
  key: Array<string>;
  /** The display name of each group. */
  label: Array<string>;
  /** The stack that allocated most of each group. */
  stack: U32s;
  now: GroupsOfInterval;
  /** The amounts in the compared interval. */
  before: GroupsOfInterval | null;
  /** The same interval of the previous step, if this is a step or a region. */
  earlier: EarlierPart | null;
};

/**
 * Requests the activity between two moments: the events `from..to`.
 */
export type IntervalQuery = {
  from: number;
  to: number;
  by: By;
  /** The search that selects allocations; null for all. */
  search: Query | null;
  /** The moments of the interval for comparison. */
  before: [number, number] | null;
};

/**
 * The items of a picture: allocations, or reserved ranges.
 */
export type Items = {
  /** The index of the allocation or range. */
  id: U32s;
  address: F64s;
  /** Bytes as stacked. */
  bytes: F64s;
  /** Bytes of the block or range, independent of the stacking. */
  size: F64s;
  /** Its first moment. */
  from: U32s;
  /** The first moment after its end; `NONE` if it stays to the end. */
  to: U32s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`; empty for ranges, and before the categories are computed. */
  purpose: U8s;
};

/**
 * A known GPU.
 */
export type KnownGpu = {
  name: string;
  /** The driver's name for the GPU. */
  driver_name: string;
  bytes: number;
};

/**
 * The launch of a kernel.
 */
export type LaunchFacts = {
  /** The innermost operator: its lane, its index there, and its name. */
  operator: [number, number, string] | null;
  /** The call of the GPU's runtime, and the microseconds from its beginning to that of the kernel. */
  call: [number, number, string] | null;
  waited_us: number | null;
};

/**
 * The kernels that a span launched, by name, most time first.
 */
export type LaunchedKernels = {
  /** The number of all, and the sum of their times in microseconds. */
  count: number;
  took_us: number;
  /** For each name, the lane and the index of its longest kernel, the number of its kernels, and their time in microseconds. */
  lane: U32s;
  span: U32s;
  name: Array<string>;
  number: U32s;
  number_us: F64s;
  /** The number of names that are left out. */
  left_out: number;
};

/**
 * Segments and blocks at a moment, both ordered by address. Ranges without a block are free.
 */
export type Layout = {
  moment: number;
  counters: ByKind<number>;
  segments: LayoutSegments;
  blocks: LayoutBlocks;
};

/**
 * The active blocks of a layout.
 */
export type LayoutBlocks = {
  allocation: U32s;
  address: F64s;
  bytes: F64s;
  requested: F64s;
  /** 1 if the block was freed and waits for another stream. */
  pending: U8s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`. */
  purpose: U8s;
  from: U32s;
  /** 1 if the block was live before recording. */
  preexisting: U8s;
};

/**
 * An expandable segment is listed as its mapped ranges; blocks may span adjacent ranges.
 */
export type LayoutSegments = {
  address: F64s;
  bytes: F64s;
  tags: U32s;
  /** A position in `SEGMENT_KINDS`. */
  kind: U8s;
  /** 1 if the segment is expandable. */
  expandable: U8s;
  stack: U32s;
  from: U32s;
};

/**
 * The largest groups at a moment, and the sum of the others.
 */
export type Legend = {
  moment: number;
  /** The bytes of all allocations or ranges, whether they match or not. */
  bytes: number;
  /** The matching bytes among them; null without a search. */
  found: number | null;
  /** Most bytes first. */
  groups: Array<GroupShare>;
  /** The number of groups that are not listed, and their bytes. */
  others: number;
  other_bytes: number;
};

/**
 * Requests a legend: the groups at the peak of an interval.
 */
export type LegendQuery = {
  by: By;
  /** The first and the last moment of the interval. */
  from: number;
  to: number;
  /** Whether to list reserved ranges instead of live allocations. */
  reserved: boolean;
  /** The maximum number of groups. */
  most: number;
  /** The search whose matches are not faded. */
  search: Query | null;
  /** Whether only the matches are listed. */
  only_found: boolean;
};

/**
 * The unit of a lifetime.
 */
export type LifetimeUnit = "events" | "us";

/**
 * A finding of the report about a line.
 */
export type LineFinding = {
  line: number;
  kind: LineFindingKind;
  /** The position of the leak or of the idle memory in the report, or the rank of the holder, from 1. */
  number: number;
  /** Bytes of the finding: retained, idle, or live at the moment. */
  bytes: number;
};

/**
 * What a finding is about.
 */
export type LineFindingKind = "leak" | "idle" | "holder";

/**
 * The live allocations at a moment. All parts of the answer refer to the same moment.
 */
export type Live = {
  holders: Holders;
  calls: Calls;
  /** Bytes for each of `CATEGORIES`; null before the categories are computed. */
  categories: Array<number> | null;
  /** The number of live blocks, the number of matching blocks, and the matching bytes. */
  blocks: number;
  found_blocks: number;
  found_bytes: number;
};

/**
 * Requests the live allocations at a moment.
 */
export type LiveQuery = {
  moment: number;
  by: By;
  /** The frames that become nodes of the call tree. */
  calls: CallsOf;
  /** Whether the innermost calls are the roots of the tree. */
  inverted: boolean;
  /** An earlier moment for comparison. */
  before: number | null;
  /** A search that marks groups; with `only_found`, only matches are included. */
  search: Query | null;
  only_found: boolean;
  /** The path of a node of the call tree, from its root: the groups have the allocations of this node alone, or of its nearest caller that exists at the moment. A step is the number of a frame, or a position in `Calls.words` as -1, -2, ... */
  zoom: Array<number>;
  /** Transforms of the call tree. */
  transforms: Array<CallTransform>;
};

/**
 * The effect of one change.
 */
export type MarkEffect = {
  mark: string;
  /** The number of changed allocations. */
  allocations: number;
  /** Why it changes none, in a sentence; null if it changes some. */
  unchanged: string | null;
};

/**
 * The reason for a mark.
 */
export type MarkKind = "oom" | "snapshot";

/**
 * The estimated effect of changes to parts of the program.
 */
export type MarkedProgram = {
  marks: Array<MarkEffect>;
  /** The recorded peak of allocated bytes, and the estimated one. */
  recorded_peak: number;
  peak: number;
  /** The smallest known GPU that has room for each peak and a CUDA context; null if none has. */
  recorded_gpu: KnownGpu | null;
  gpu: KnownGpu | null;
  /** The command that verifies the changes. */
  verify: string;
};

/**
 * An event with a mark on the axis.
 */
export type Marker = {
  event: number;
  time_us: number | null;
  kind: MarkKind;
  /** The requested bytes, for an out-of-memory event. */
  bytes: number;
};

/**
 * The markers along the recording: failed requests and snapshots, then steps, then region runs.
 */
export type Markers = {
  /** A position in `MARKERS`. */
  kind: U8s;
  /** The index of the step, or of the run among the regions. */
  number: U32s;
  /** The moment after its event; for steps and regions, after the first event. */
  moment: U32s;
  /** Microseconds after the first event; NaN if the recording has no times. */
  time_us: F64s;
  /** Allocated bytes at that moment. */
  allocated: F64s;
  /** Bytes of a failed request. */
  requested: F64s;
};

/**
 * The categories of a device's memory, and the steps and phases that follow from them.
 */
export type Meaning = {
  purposes: Array<Purpose>;
  steps: Steps | null;
  phases: Phases | null;
};

/**
 * Frames and stacks of a file. Frames refer to the distinct `texts` by position.
 */
export type Names = {
  texts: Array<string>;
  /** For each frame, its file as recorded. */
  file: U32s;
  /** The file as shortened in reports. */
  short_file: U32s;
  function: U32s;
  short_function: U32s;
  /** The library, by which transforms of the call tree know the frame; `NONE` for the user's code. */
  library: U32s;
  line: U32s;
  /** The code classification: a position in `CODES`. */
  code: U8s;
  /** Stack `i` has the frames from `ends[i - 1]` (0 for the first) up to `ends[i]`, innermost first. */
  ends: U32s;
  frames: U32s;
  /** For each stack, the frame that names it: usually the innermost user frame. */
  own: U32s;
  /** The frames of generated code whose origin is recorded, in order. */
  generated: U32s;
  /** For each of them, the graph node, as a position in `texts`; `NONE` without a name. */
  node: U32s;
  /** For each of them, the original lines of the program, as a position in `texts`. */
  original: U32s;
};

/**
 * The explanation of a failed request.
 */
export type OomFinding = {
  /** The free blocks that the request could not use, with the reason: one clause each. */
  unusable: Array<string>;
  /** Why it failed. */
  cause: string;
  /** The amount of free memory between blocks, and the lines that pinned it: one sentence each. Empty if there was none. */
  pinned: Array<string>;
};

/**
 * An operator, a kernel or an annotation, and the memory that it allocated.
 */
export type OperatorFacts = {
  name: string;
  /** The whole name of its lane. */
  lane: string;
  took_us: number;
  /** The moments before its first event and after its last. */
  from: number;
  to: number;
  /** Its ends on the axis of events, and in microseconds after the first event; null without times. */
  at: [number, number];
  at_us: [number, number] | null;
  allocated: Amount;
  /** The index of the largest allocation, and its bytes. */
  largest: number | null;
  largest_bytes: number;
  /** Of these, still allocated at its end. */
  kept: Amount;
  /** Whether only the allocations of its own thread count. */
  of_thread: boolean;
  /** The spans of its lane around it, innermost first: indices and names. */
  around: Array<[number, string]>;
  /** What launched it, if it is a kernel, a copy or a fill, and the trace tells. */
  launch: LaunchFacts | null;
  /** The kernels, copies and fills that it launched on this device; null for those of the device, and if the trace has no launches. */
  kernels: LaunchedKernels | null;
};

/**
 * The spans of a thread, or of a stream.
 */
export type OperatorLane = {
  /** Its number in the trace, by which queries refer to it. */
  number: number;
  /** A short name, and the whole. */
  label: string;
  title: string;
  /** The number of rows, and of spans. */
  rows: number;
  spans: number;
};

/**
 * The lanes of a trace beside the recording.
 */
export type OperatorLanes = {
  /** The name of the trace's file. */
  name: string;
  /** How its clock and that of the recording were related, in a sentence. */
  told: string;
  lanes: Array<OperatorLane>;
  /** The number of lanes that are left out. */
  left_out: number;
};

/**
 * The spans in a window, those of a row in order. Of several spans in one pixel, only the first is here.
 */
export type OperatorPicture = {
  /** Distinct names. */
  names: Array<string>;
  lane: U32s;
  row: U8s;
  /** The index of each span in its lane. */
  span: U32s;
  /** A position in `names`. */
  name: U32s;
  /** The ends on the axis. */
  from: F64s;
  to: F64s;
  /** Its time in microseconds, by the profiler's clock. */
  took_us: F64s;
};

/**
 * The part of the axis to draw, its number of pixel columns, and the lanes.
 */
export type OperatorWindow = {
  axis: Axis;
  from: number;
  to: number;
  width: number;
  /** The number of a lane, and the number of its rows to draw, outermost first. */
  lanes: Array<[number, number]>;
};

/**
 * The peak of one kind of bytes, and its first moment.
 */
export type Peak = {
  bytes: number;
  moment: number;
};

/**
 * The phases of steps, in order and without overlaps. Lists have one entry per phase.
 */
export type Phases = {
  /** The sources of the phases, in sentences. */
  told: string;
  /** A position in `PHASES`. */
  phase: Array<number>;
  /** Whether the phase is inferred, not recorded. */
  is_inferred: Array<boolean>;
  /** The step, numbered from 0; null outside of all steps. */
  step: Array<number | null>;
  /** The moment right before the first event, and the last moment. */
  from: Array<number>;
  to: Array<number>;
  /** The time of the first event, and of the first event after the phase; empty if the recording has no times. */
  from_us: Array<number>;
  to_us: Array<number>;
  /** The peak of allocated bytes, including the moment right before the first event, and the first moment of the peak. */
  peak: Array<number>;
  peak_moment: Array<number>;
  /** The bytes of all blocks allocated in the phase, and their number. */
  allocated: Array<number>;
  allocations: Array<number>;
  /** Allocated bytes after the phase minus those before it. */
  kept: Array<number>;
};

/**
 * A picture of a window. Each pixel column shows the moment within it at which the stacked bytes peak, so no peak is lost at
 * any zoom. Each row shows the item that covers its middle.
 *
 * Pixel columns that show the same moment share a column here. Column `c` has the runs `start[c]..start[c + 1]`, from the
 * bottom up. Run `r` shows item `item[r]` below row `end[r]`, and above the end of the previous run. Row 0 is the bottom.
 * Nothing is live above the last run, or where the item is `NONE`.
 */
export type Picture = {
  /** Bytes at the bottom and at the top. */
  low: number;
  high: number;
  /** The column of each pixel column; `NONE` outside of the recording. */
  column: U32s;
  /** The moment that a column shows. */
  moment: U32s;
  start: U32s;
  item: U32s;
  end: U16s;
  items: Items;
  /** The exact maximum of the bytes within each pixel column. */
  highest: ByKind<F64s>;
};

/**
 * A line whose blocks keep free memory from merging.
 */
export type PinningLine = {
  /** The finding in a sentence. */
  told: string;
  line: string;
  bytes: number;
  /** The size of the largest hole without its blocks. */
  joined: number;
  /** The stack of its largest block. */
  stack: number;
};

/**
 * The position of an allocation in the stacked timeline.
 */
export type Place = {
  /** Its first moment, and the first moment after its end; the end of the recording if it stays. */
  from: number;
  to: number;
  from_us: number | null;
  to_us: number | null;
  /** Its bytes as stacked. */
  bytes: number;
  /** The bytes below it at its first moment and at its last moment. The second number is never larger. */
  below_first: number;
  below_last: number;
};

/**
 * Requests the position of an allocation in the stacked timeline.
 */
export type PlaceQuery = {
  id: number;
  stacked: ByteKind;
  /** The search whose matches alone are stacked; null for all allocations. */
  only: Query | null;
};

/**
 * The reserved bytes of a pool over time, summed over its streams.
 */
export type PoolCourse = {
  pool: [number, number] | null;
  /** For example `private pool (1, 0)`. */
  name: string;
  /** The kind of pool, as far as its id shows it. Null for the default pool, and if no pool was recorded. */
  kind: string | null;
  /** The stack that reserved its first memory. */
  stack: number;
  peak_reserved: number;
  /** The first moment of its peak of active bytes. */
  fullest_moment: number;
  /** Moments, and the bytes from there on, in order. Chunks of many changes are reduced to their maximum. */
  points: Array<[number, number]>;
};

/**
 * The holders of a pool.
 */
export type PoolHeld = {
  reserved: number;
  allocated: number;
  /** Groups of the pool's live allocations. */
  holders: Holders;
};

/**
 * The peaks of reserved and active bytes of a pool on a stream.
 */
export type PoolPeaks = {
  pool: [number, number] | null;
  stream: number;
  peak_reserved: number;
  peak_active: number;
};

/**
 * Requests the holders of a pool at a moment.
 */
export type PoolQuery = {
  pool: [number, number] | null;
  moment: number;
  by: By;
};

/**
 * The category of an allocation, and the evidence for it.
 */
export type Purpose = {
  /** A position in `CATEGORIES`. */
  category: number;
  /** A clause about "it". */
  because: string;
};

/**
 * A search for allocations: one condition, or a combination. Conditions with an invalid text are ignored, and the answer says
 * why.
 */
export type Query = {
  "is": "all";
  of: Array<Query>;
} | {
  "is": "any";
  of: Array<Query>;
} | {
  "is": "not";
  of: Query;
} | {
  "is": "leak";
  leak: number;
} | {
  "is": "idle";
  idle: number;
} | {
  "is": "transforms";
  transforms: Array<CallTransform>;
} | {
  "is": "frame";
  field: FrameField;
  sought: Sought;
} | {
  "is": "tag";
  field: TagField;
  sought: Sought;
} | {
  "is": "category";
  sought: Sought;
} | {
  "is": "region";
  sought: Sought;
} | {
  "is": "phase";
  sought: Sought;
} | {
  "is": "step";
  from: number;
  to: number | null;
} | {
  "is": "address";
  address: number;
  version: number | null;
} | {
  "is": "size";
  sign: SizeSign;
  size: string;
} | {
  "is": "lived";
  from: number;
  to: number | null;
  unit: LifetimeUnit;
} | {
  "is": "allocated";
  spans: Array<[number, number]>;
} | {
  "is": "freed";
  spans: Array<[number, number]>;
};

/**
 * A query of the page about one device of a file.
 */
export type Question = {
  "question": "names"
} | {
  "question": "picture"
} & Window | {
  "question": "bands"
} & Span | {
  "question": "meaning"
} | {
  "question": "live"
} & LiveQuery | {
  "question": "holders_of_both"
} & HoldersOfBothQuery | {
  "question": "interval"
} & IntervalQuery | {
  "question": "groups"
} & GroupsQuery | {
  "question": "legend"
} & LegendQuery | {
  "question": "highest_of_both"
} & HighestOfBothQuery | {
  "question": "first_difference"
} & FirstDifferenceQuery | {
  "question": "layout";
  /** The moment. */
  moment: number;
} | {
  "question": "holes";
  /** The moment. */
  moment: number;
} | {
  "question": "hole";
  /** The moment. */
  moment: number;
  /** The address of its first byte. */
  address: number;
} | {
  "question": "pool"
} & PoolQuery | {
  "question": "events";
  /** The index of the first event. */
  first: number;
  /** The number of events. */
  count: number;
} | {
  "question": "allocation";
  /** Its index. */
  id: number;
} | {
  "question": "search";
  /** The search. */
  search: Query;
} | {
  "question": "allocations"
} & AllocationsQuery | {
  "question": "source_lines"
} & SourceLinesQuery | {
  "question": "specks"
} & SpecksQuery | {
  "question": "place"
} & PlaceQuery | {
  "question": "markers"
} | {
  "question": "regions"
} | {
  "question": "operator_lanes"
} | {
  "question": "operator_picture"
} & OperatorWindow | {
  "question": "in_flight"
} & InFlightQuery | {
  "question": "operator";
  /** The number of its lane. */
  lane: number;
  /** Its index in the lane. */
  span: number;
} | {
  "question": "segments"
} | {
  "question": "report"
} & ReportRequest | {
  "question": "replay"
} & ReplayRequest | {
  "question": "setting";
  /** In the format of PYTORCH_CUDA_ALLOC_CONF. */
  conf: string;
} | {
  "question": "marked";
  /** The changes, such as `layer:h.*.mlp=checkpoint`. */
  marks: Array<string>;
} | {
  "question": "gpus"
} | {
  "question": "comparison";
  /** The position of the other file. */
  other_file: number;
  /** The position of the device in it. */
  other_device: number;
  /** The moments to compare. */
  request?: DiffRequest;
};

/**
 * One open file.
 */
export type Recording = {
  name: string;
  /** `pickle`, `json` or `log`. */
  format: string;
  /** `PYTORCH_CUDA_ALLOC_CONF` as it was recorded. */
  conf: string | null;
  /** Names and values of facts about the file, in display order. */
  facts: Array<[string, string]>;
  /** Names and values of the recorded allocator settings. */
  settings: Array<[string, string]>;
  devices: Array<Device>;
};

/**
 * Annotated regions: one entry per run, outermost first.
 */
export type Regions = {
  names: Array<string>;
  /** A position in `names`. */
  name: U32s;
  /** The row in which it is drawn: below the regions that contain it, and separate from those that overlap it. */
  row: U8s;
  /** The last moment before the run's first event, and the last moment of the run. */
  from: U32s;
  to: U32s;
  from_us: F64s;
  to_us: F64s;
};

/**
 * The recording, replayed under its own settings and under others.
 */
export type Replay = {
  /** The device's part of `vramscope replay --json`. */
  device: ReplayDevice;
  /** Reserved bytes under each tried setting: moment and bytes, at each change. */
  lines: Array<Array<[number, number]>>;
  /** The device size and its source, in a sentence. */
  device_size: string;
  /** The lower bound for any allocator, and its confidence: two sentences. */
  floors: [string, string];
  /** The closest result if nothing fits, in a sentence. */
  nearest: string | null;
  /** The smallest GPU that fits, in a sentence. Null if it was not requested or if there is none. */
  smallest_gpu: string | null;
  confidence: ReplayConfidence;
};

/**
 * The confidence in a replay, in the wording of the report.
 */
export type ReplayConfidence = {
  /** The verdict in a few words. */
  title: string;
  /** What the replay reproduced; null if it did not reproduce the recording. */
  reproduced: string | null;
  /** Why the replay is approximate, one sentence each; empty if it is exact. */
  limitations: Array<string>;
  /** Further limitations, which apply only to settings other than the recorded ones. */
  what_if_limitations: Array<string>;
};

/**
 * A question for a replay.
 */
export type ReplayRequest = {
  /** Replay under these settings, in the syntax of PYTORCH_CUDA_ALLOC_CONF [default: the recorded settings, compared with others] */
  conf?: string | null;
  /** Total memory of the device, as 80GiB or in bytes [default: inferred from the recorded out-of-memory failure] */
  capacity?: number | null;
  /** Total memory of the device, by GPU name, as a100-40gb */
  gpu?: string | null;
  /** Device memory that the allocator cannot use: CUDA contexts, other processes [default: 0] */
  overhead?: number | null;
  /** The PyTorch release that made the recording [default: inferred from the recording] */
  torch?: string | null;
  /** Compare values of one setting: `KEY=A..B` doubles integers and adds 0.1 to fractions, `KEY=A,B,C` lists values */
  sweep?: string | null;
  /** Find the smallest device on which the run fits */
  find_capacity: boolean;
  /** Also replay with a plan: a file of `vramscope plan`, or `auto` for a plan of this recording */
  plan?: string | null;
  /** Only this device */
  device?: number | null;
};

/**
 * The findings of the report for a device, as data and in sentences.
 */
export type Report = {
  /** The device's part of `vramscope report --json`. */
  device: ReportDevice;
  /** The sections of the report that the device has, in order. */
  sections: ReportSection[];
  /** The explanations of `ooms`, in the same order. */
  ooms: Array<OomFinding>;
  /** The recommended change after an out-of-memory error, in sentences; null without such an error. */
  best_setting: string | null;
  /** Null if the recording has no accesses. */
  idle: IdleTexts | null;
  /** The allocations of the report's `referred_tensors`. */
  referred: Array<number>;
};

/**
 * A question for the report.
 */
export type ReportRequest = {
  /** Only this device */
  device?: number | null;
  /** Report the allocations live after event EVENT (counted from 0) instead of at the peak, or those at the end of the recording, as `end`; or, as FIRST..LAST, the allocations and frees of these events, both ends included; or those of a step or of one of its phases, as `step:2`, `forward:2`, `backward:2`, `optimizer:2` or `zero_grad:2` */
  at?: string | null;
  /** Group live allocations by this key, instead of showing the tree of calls */
  by?: string | null;
  /** Keep only stacks with a frame that matches; a frame is matched as `file:line function` */
  filter?: string | null;
  /** Bytes that the program may use on the device, with its CUDA context, as 24GiB: estimate changes to the program that lower its peak [default: the device's size, if a request failed] */
  budget?: number | null;
  /** Limit on the rows of each list */
  top?: number | null;
};

/**
 * Every reserved range, ordered by its first moment, and the peaks of each pool.
 */
export type Segments = {
  address: F64s;
  bytes: F64s;
  from: U32s;
  /** `NONE` if it still exists at the end. */
  to: U32s;
  tags: U32s;
  /** A position in `SEGMENT_KINDS`. */
  kind: U8s;
  /** 1 if the segment is expandable. */
  expandable: U8s;
  stack: U32s;
  pools: Array<PoolPeaks>;
  /** The reserved bytes of each pool over time, default pool first. */
  courses: Array<PoolCourse>;
};

/**
 * Whether PyTorch accepts a setting.
 */
export type SettingCheck = {
  /** Why PyTorch refuses it; null if it accepts it. */
  refused: string | null;
};

/**
 * The comparison of a block size with a size.
 */
export type SizeSign = "above" | "at_least" | "below" | "at_most" | "about";

/**
 * A text to search for, ignoring case.
 */
export type Sought = {
  text: string;
  /** Whether it is a regular expression. */
  is_pattern: boolean;
};

/**
 * The memory of the lines of a file, by line; or of files, most live bytes first. An allocation counts once for each line and file in its
 * stack.
 */
export type SourceLines = {
  /** A frame of the line or file. */
  frame: U32s;
  /** The number of the line; 0 for a file. */
  line: U32s;
  /** Bytes live at the moment. */
  live: F64s;
  /** The part of these bytes whose allocation the line names, as in tables. */
  own: F64s;
  /** Bytes and number of all allocations of the recording. */
  allocated: F64s;
  count: U32s;
  /** The findings about lines of the file. */
  findings: Array<LineFinding>;
};

/**
 * Requests the memory of each line of a file, or of each file.
 */
export type SourceLinesQuery = {
  /** A frame of the file; null: all files. */
  frame: number | null;
  moment: number;
  /** The search whose matches alone count; null: all allocations. */
  only: Query | null;
};

/**
 * The part of the axis to draw, and its number of pixel columns.
 */
export type Span = {
  axis: Axis;
  from: number;
  to: number;
  width: number;
  /** The search whose matches alone count; null for all allocations. */
  only: Query | null;
};

/**
 * Matches that are too small for a picture.
 */
export type Specks = {
  /** 1 for each pixel column in which such an allocation begins. Allocations from before the window count in the first column. */
  at: U8s;
  count: number;
};

/**
 * Requests the positions of matches that are smaller than a pixel in a window.
 */
export type SpecksQuery = {
  search: Query;
  axis: Axis;
  from: number;
  to: number;
  width: number;
  /** The bytes per pixel. */
  bytes: number;
};

/**
 * The amounts of allocations in an interval.
 */
export type SpentAmounts = {
  /** Live before the first event. */
  before: Amount;
  allocated: Amount;
  freed: Amount;
  /** Live before the first event, and freed. */
  freed_from_before: Amount;
  /** Allocated and freed. */
  temporary: Amount;
  /** Allocated and not freed. */
  survived: Amount;
  /** Live at the peak. */
  at_highest: Amount;
  /** Live after the last event. */
  after: Amount;
};

/**
 * The steps of a program that repeats itself, numbered from 0. Lists have one entry per step.
 */
export type Steps = {
  /** How the step boundaries were found, and how many steps are alike, in sentences. */
  told: string;
  /** The step with the largest peak; and, among the steps after the first, the one with the median peak (null for fewer than three of them). */
  highest: number;
  median: number | null;
  /** Steps whose allocations differ from most steps, in order; empty if fewer than half are alike. */
  unusual: Array<number>;
  /** The first of `unusual` that is neither the first nor the last step. The recording may end within the last. */
  first_unusual: number | null;
  /** Boundaries on the moment axis: a step has the moments from its entry up to the next entry. One more entry than there are steps. */
  bounds: Array<number>;
  /** The same in microseconds; empty if the recording has no times. */
  bounds_us: Array<number>;
  /** The peak of allocated bytes, including the moment right before the step's first event, and the first moment of the peak. */
  peak: Array<number>;
  peak_moment: Array<number>;
  /** The bytes of all blocks allocated in the step, and their number. */
  allocated: Array<number>;
  allocations: Array<number>;
  /** Allocated bytes after the step minus those before it. */
  kept: Array<number>;
};

/**
 * The tag in which a text is searched.
 */
export type TagField = "stream" | "pool" | "layer" | "context" | "metadata";

/**
 * Recorded properties of an allocation or event, besides numbers and the stack. Texts are positions in the device's
 * `tag_texts`.
 */
export type Tags = {
  stream: number;
  /** Null if the recording has no pool ids; (0, 0) is the default pool. */
  pool: [number, number] | null;
  /** The path of the module that made the allocation; empty for the outermost module. */
  layer: number | null;
  /** The category from PyTorch's profiler, in its own words. */
  recorded_category: number | null;
  compile_context: number | null;
  user_metadata: number | null;
};

/**
 * The tensor in an allocation, as the program described it at the snapshot.
 */
export type Tensor = {
  /** The name of a parameter, a gradient or an optimizer state; empty for other tensors. */
  name: string;
  dtype: string;
  shape: string;
  /** Chains of references from a variable to the tensor. */
  referrers: Array<string>;
};

/**
 * A column of `u16`.
 */
export type U16s = Uint16Array;

/**
 * A column of `u32`.
 */
export type U32s = Uint32Array;

/**
 * A column of `u8`.
 */
export type U8s = Uint8Array;

/**
 * The accesses of an allocation by kernels, libraries and copies.
 */
export type Uses = {
  count: number;
  /** The moments of the first and the last access; null without any. */
  first: number | null;
  last: number | null;
  first_us: number | null;
  last_us: number | null;
  /** The moments of the two consecutive accesses with the most events between them; null for fewer than two accesses. */
  longest_idle: [number, number] | null;
  /** Microseconds between the two. */
  longest_idle_us: number | null;
};

/**
 * One change.
 */
export type WhatChanged = {
  /** The rule that found it, as in `vramscope diff --json`. */
  kind: string;
  text: string;
  /** Its bytes in the first recording, and in the second. */
  a: number;
  b: number;
  /** Whether it is more than one percent of the total difference. */
  counts: boolean;
  /** Its lines with the largest differences. */
  lines: Array<Held>;
};

/**
 * The part of the timeline to draw, and the size of the picture.
 */
export type Window = {
  stacked: ByteKind;
  axis: Axis;
  /** The left and right ends on the axis. */
  from: number;
  to: number;
  /** The size of the picture in pixels. */
  width: number;
  height: number;
  /** Bytes at the bottom and at the top. If the top is null, the picture is fitted to its contents. */
  low: number;
  high: number | null;
  /** Whether a fitted picture includes the reserved bytes. */
  fit_reserved: boolean;
  /** The search whose matches alone are stacked; null for all allocations. Reserved ranges are not searched. */
  only: Query | null;
};

/** The answer to each question. */
export type Answers = {
  names: Names;
  picture: Picture;
  bands: Bands;
  meaning: Meaning;
  live: Live;
  holders_of_both: Holders;
  interval: IntervalAnswer;
  groups: Groups;
  legend: Legend;
  highest_of_both: HighestOfBoth;
  first_difference: FirstDifference;
  layout: Layout;
  holes: Holes;
  hole: HoleSince;
  pool: PoolHeld;
  events: Events;
  allocation: Allocation;
  search: Found;
  allocations: Allocations;
  source_lines: SourceLines;
  specks: Specks;
  place: Place;
  markers: Markers;
  regions: Regions;
  operator_lanes: OperatorLanes | null;
  operator_picture: OperatorPicture;
  in_flight: InFlight;
  operator: OperatorFacts;
  segments: Segments;
  report: Report;
  replay: Replay;
  setting: SettingCheck;
  marked: MarkedProgram;
  gpus: Array<KnownGpu>;
  comparison: Comparison;
};
