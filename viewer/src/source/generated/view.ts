// Written by the tests of crates/vramscope-viewer from the structs in src/protocol, the questions in src/questions.rs
// and the tables in src/tables.rs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.

import type { ReplayDevice, ReportDevice } from './report';

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

/**
 * A column of `u8`.
 */
export type U8s = Uint8Array;

/**
 * A column of `u16`.
 */
export type U16s = Uint16Array;

/**
 * A column of `u32`.
 */
export type U32s = Uint32Array;

/**
 * A column of `f64`.
 */
export type F64s = Float64Array;

/**
 * Bytes by kind. Those requested are PyTorch's sum over active blocks: where blocks wait for other streams, it can exceed
 * what is allocated.
 */
export type ByKind<T> = {
  requested: T;
  allocated: T;
  active: T;
  reserved: T;
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
  /** Facts about the file, in the order in which they are shown: their names and values. */
  facts: Array<[string, string]>;
  /** The recorded settings of the allocator: their names and values. */
  settings: Array<[string, string]>;
  devices: Array<Device>;
};

/**
 * One device of a file.
 */
export type Device = {
  /** Its number in the recording; -1 is the host. */
  device: number;
  events: number;
  allocations: number;
  /** When the first event happened, in microseconds since the Unix epoch; null where events have no times. */
  origin_us: number | null;
  /** From the first event to the last, in microseconds. */
  duration_us: number | null;
  peaks: ByKind<Peak>;
  /** Bytes before the first event. */
  start: ByKind<number>;
  /** Bytes after the last event. */
  end: ByKind<number>;
  /** Allocations that were live before recording began. */
  preexisting: number;
  marks: Array<Mark>;
  /** Each combination of tags once; allocations and events name theirs by its position here. */
  tags: Array<Tags>;
  /** The texts of `tags`, each once. */
  tag_texts: Array<string>;
  /** What allocations are for; they name theirs by its position here. Null of a long recording of which nobody asked it yet. */
  purposes: Array<Purpose> | null;
  /** The steps of the program. Null where it does not repeat itself, and as long as `purposes` is null. */
  steps: Steps | null;
  trust: Trust;
};

/**
 * What a device's memory is for, and what follows from it.
 */
export type Meaning = {
  purposes: Array<Purpose>;
  steps: Steps | null;
};

/**
 * The steps of a program that repeats itself, by their numbers from 0. Lists have an entry for each.
 */
export type Steps = {
  /** What tells where they begin, and how many are alike, in sentences. */
  told: string;
  /** The one with the highest peak, and of those after the first the one with the median peak; null of fewer than three of them. */
  highest: number;
  median: number | null;
  /** Those that make other allocations than most, in order; empty where fewer than half are alike. */
  unusual: Array<number>;
  /** The first of `unusual` that is neither the first step nor the last, within which the recording may end. */
  first_unusual: number | null;
  /** Where they lie on the axis: a step has the moments from its entry up to the next one's. One entry more than there are steps. */
  bounds: Array<number>;
  /** The same in microseconds; empty where the recording has no times. */
  bounds_us: Array<number>;
  /** The highest allocated bytes, those right before its first event included, and the first moment at which they were reached. */
  peak: Array<number>;
  peak_moment: Array<number>;
  /** Bytes of all blocks that were handed out in it, and how many these are. */
  allocated: Array<number>;
  allocations: Array<number>;
  /** Allocated bytes after it minus those before. */
  kept: Array<number>;
};

/**
 * How far the numbers of a device can be trusted, in the words of the report.
 */
export type Trust = {
  is_exact: boolean;
  /** The same in a few words. */
  title: string;
  /** Why numbers may not be exact, a sentence each; empty where they are. */
  doubts: Array<string>;
  /** Whether a replay under the recorded settings gave what was recorded, in a sentence. */
  replay: string;
  /** That the oldest events were dropped, and how to record them, in a sentence. */
  dropped: string | null;
};

/**
 * The highest bytes of one kind, and the first moment at which they were reached.
 */
export type Peak = {
  bytes: number;
  moment: number;
};

/**
 * An event that deserves a mark on the axis.
 */
export type Mark = {
  event: number;
  time_us: number | null;
  kind: MarkKind;
  /** The bytes of the request that failed, where it is an out of memory. */
  bytes: number;
};

/**
 * Why an event has a mark.
 */
export type MarkKind = "oom" | "snapshot";

/**
 * What is recorded with an allocation or event besides numbers and a stack. Texts are positions in the device's `tag_texts`.
 */
export type Tags = {
  stream: number;
  /** Null where the recording has no ids of pools; 0, 0 is the default pool. */
  pool: [number, number] | null;
  /** The path of the module that made it; that of the outermost is empty. */
  layer: number | null;
  /** What PyTorch's profiler said that it is for, in its words. */
  recorded_category: number | null;
  compile_context: number | null;
  user_metadata: number | null;
};

/**
 * What an allocation is for, and why that is said.
 */
export type Purpose = {
  /** A position in `CATEGORIES`. */
  category: number;
  /** Half a sentence about "it". */
  because: string;
};

/**
 * Frames and stacks of a file. Texts stand once in `texts`; frames name theirs by its position.
 */
export type Names = {
  texts: Array<string>;
  /** For each frame its file as recorded. */
  file: U32s;
  /** The file as reports shorten it. */
  short_file: U32s;
  function: U32s;
  short_function: U32s;
  line: U32s;
  /** Whose code it is: a position in `CODES`. */
  code: U8s;
  /** Stack `i` has the frames from `ends[i - 1]` (0 of the first) up to `ends[i]`, innermost first. */
  ends: U32s;
  frames: U32s;
  /** For each stack the frame that names it: as a rule the user's innermost. */
  own: U32s;
  /** The frames of generated code of which the recording says what they stand for, in order. */
  generated: U32s;
  /** For each of them the node of the graph, in `texts`; `NONE` where it is not named. */
  node: U32s;
  /** The lines of the program that it came from, likewise. */
  original: U32s;
};

/**
 * A note on what happened between two moments of a device, or on a moment, where they are the same.
 */
export type Note = {
  /** The position of the file among those of its page. */
  file: number;
  /** The position of the device in the file. */
  device: number;
  /** The first moment. */
  from: number;
  /** The last moment. */
  to: number;
  /** What was written, in one line. */
  text: string;
};

/**
 * What the page asks of one device of a file.
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
  "question": "spent"
} & SpentQuery | {
  "question": "groups"
} & GroupsQuery | {
  "question": "legend"
} & LegendQuery | {
  "question": "highest_of_both"
} & HighestOfBothQuery | {
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
  /** The number of the first. */
  first: number;
  /** How many. */
  count: number;
} | {
  "question": "allocation";
  /** Its number. */
  id: number;
} | {
  "question": "search";
  /** What is searched for. */
  search: Query;
} | {
  "question": "allocations"
} & AllocationsQuery | {
  "question": "specks"
} & SpecksQuery | {
  "question": "place"
} & PlaceQuery | {
  "question": "markers"
} | {
  "question": "regions"
} | {
  "question": "segments"
} | {
  "question": "report"
} | {
  "question": "replay"
} & ReplayQuery | {
  "question": "setting";
  /** As for PYTORCH_CUDA_ALLOC_CONF. */
  conf: string;
} | {
  "question": "gpus"
} | {
  "question": "comparison";
  /** The position of the other file. */
  other_file: number;
  /** The position of the device in it. */
  other_device: number;
};

/**
 * What part of the timeline is drawn, and how large.
 */
export type Window = {
  stacked: ByteKind;
  axis: Axis;
  /** The left and the right end on the axis. */
  from: number;
  to: number;
  /** The size of the picture in pixels. */
  width: number;
  height: number;
  /** Bytes at the bottom and at the top; where the top is null, the picture is fitted to what is there. */
  low: number;
  high: number | null;
  /** Where `high` is null: whether room is left for reserved bytes, too. */
  fit_reserved: boolean;
};

/**
 * A kind of bytes. The timeline stacks live allocations by one of them, or reserved ranges.
 */
export type ByteKind = "requested" | "allocated" | "active" | "reserved";

/**
 * What the timeline lies along: moments, or microseconds after the first event.
 */
export type Axis = "events" | "time";

/**
 * A picture of a window: each pixel column shows the moment in it at which the stacked bytes were highest, so that no
 * peak is lost at any zoom; each row shows what covers its middle.
 *
 * Pixel columns that show the same moment share a column here. Column `c` has the runs `start[c]` up to `start[c + 1]`,
 * from the bottom: run `r` shows item `item[r]` below row `end[r]`, and above the end of the run before it. Row 0 is
 * the bottom. Above the last run nothing is live, and where the item is `NONE` nothing lies.
 */
export type Picture = {
  /** Bytes at the bottom and at the top. */
  low: number;
  high: number;
  /** The column of each pixel column; `NONE` where the window reaches beyond the recording. */
  column: U32s;
  /** The moment that a column shows. */
  moment: U32s;
  start: U32s;
  item: U32s;
  end: U16s;
  items: Items;
  /** The exact highest bytes within each pixel column. */
  highest: ByKind<F64s>;
};

/**
 * The items of a picture: allocations, or ranges of reserved memory.
 */
export type Items = {
  /** The number of the allocation or range. */
  id: U32s;
  address: F64s;
  /** Bytes as they are stacked. */
  bytes: F64s;
  /** Bytes of the block or range, whatever is stacked. */
  size: F64s;
  /** The first moment at which it is there. */
  from: U32s;
  /** The first moment at which it is there no more; `NONE` where it stays to the end. */
  to: U32s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`; empty of ranges, and where the device has none yet. */
  purpose: U8s;
};

/**
 * What part of the axis is drawn, in how many pixel columns.
 */
export type Span = {
  axis: Axis;
  from: number;
  to: number;
  width: number;
};

/**
 * Allocated bytes by category: each pixel column shows the first moment in it at which most was allocated, and there all
 * categories sum to what is allocated.
 */
export type Bands = {
  /** The column of each pixel column; `NONE` where the span reaches beyond the recording. */
  column: U32s;
  /** The moment that a column shows. */
  moment: U32s;
  /** Categories that have bytes, in the order of `CATEGORIES`. */
  bands: Array<Band>;
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
 * What live allocations are grouped by, as `vramscope report --by` names it.
 */
export type By = "stack" | "line" | "function" | "file" | "module" | "category" | "layer" | "step" | "stream" | "pool" | "size";

/**
 * Which frames of a stack make nodes of the tree of calls: those of the user's code, of Python, or all.
 */
export type CallsOf = "own" | "python" | "all";

/**
 * What is live at a moment.
 */
export type LiveQuery = {
  moment: number;
  by: By;
  /** Which frames make nodes of the tree of calls. */
  calls: CallsOf;
  /** Whether the innermost calls are outermost in the tree. */
  inverted: boolean;
  /** An earlier moment to compare with. */
  before: number | null;
  /** What is marked in the answer; or, with `only_found`, all that is in it. */
  search: Query | null;
  only_found: boolean;
};

/**
 * Groups of what is live at a moment of each of two devices.
 */
export type HoldersOfBothQuery = {
  moment: number;
  by: By;
  search: Query | null;
  /** The position of the other file, and that of the device in it. */
  other_file: number;
  other_device: number;
  other_moment: number;
};

/**
 * What happened between two moments: in the events of the numbers from `from` up to `to`, without the last.
 */
export type SpentQuery = {
  from: number;
  to: number;
  by: By;
  /** What is grouped; null: everything. */
  search: Query | null;
  /** The moments between which lies what it is compared with. */
  before: [number, number] | null;
};

/**
 * What a part of the recording did, in groups: what allocated most first; compared with another part, what allocated most more than
 * there first and what allocated most less last.
 */
export type Spent = {
  /** Names each group, in any part of the recording. */
  key: Array<string>;
  /** What each shares, in words. */
  label: Array<string>;
  /** The stack that allocated most of each. */
  stack: U32s;
  now: SpentIn;
  /** In the part that is compared with. */
  before: SpentIn | null;
  /** The same part of the step before, where this is a step, or a region. */
  earlier: EarlierPart | null;
};

/**
 * A part of the recording, and what it did.
 */
export type SpentIn = {
  from: number;
  to: number;
  /** `backward of step 2`, `events 10 to 99`. */
  title: string;
  /** What it did, in a line. */
  headline: string;
  /** Microseconds from its first event to its last; null where they have no times. */
  lasted_us: number | null;
  /** The most allocated bytes in it, and the first moment at which it was so much. */
  highest: number;
  highest_moment: number;
  /** What all allocations did. */
  all: SpentAmounts;
  /** What those did that the search finds. */
  found: SpentAmounts;
  /** Bytes of each group. */
  before: F64s;
  allocated: F64s;
  freed: F64s;
  temporary: F64s;
  survived: F64s;
  at_highest: F64s;
  after: F64s;
  /** How many blocks each allocated. */
  count: U32s;
};

/**
 * What allocations did in a part of the recording.
 */
export type SpentAmounts = {
  /** What was allocated before its first event. */
  before: Amount;
  allocated: Amount;
  freed: Amount;
  /** What was freed of that which was there before. */
  freed_from_before: Amount;
  /** What was allocated and freed again. */
  temporary: Amount;
  /** What was allocated and not freed. */
  survived: Amount;
  /** What was allocated when most was. */
  at_highest: Amount;
  /** What is allocated after its last event. */
  after: Amount;
};

/**
 * Bytes, and the number of blocks that they are in.
 */
export type Amount = {
  bytes: number;
  count: number;
};

/**
 * A part of the recording that can be compared with.
 */
export type EarlierPart = {
  from: number;
  to: number;
  title: string;
};

/**
 * What groups a picture is coloured by.
 */
export type GroupsQuery = {
  by: By;
};

/**
 * The groups of a device by what tells them: stacks, or tags.
 */
export type Groups = {
  /** By what each is coloured: a number made of its name, the same in every recording; 0 of a group that stands for nothing known. Those that cover most of the timeline, or of its peak, come first. */
  hue: U32s;
  /** The group of each stack of the file, `NONE` where none is of the device; empty where tags tell it. */
  stack: U32s;
  /** The group of what has no stack. */
  no_stack: number;
  /** The group of each of the device's tags; empty where stacks tell it. */
  tags: U32s;
  /** The hue of each frame of the file, for trees of calls; empty but by line, function, file and module. */
  frame: U32s;
};

/**
 * What a legend lists: the groups at the moment of some at which most is allocated.
 */
export type LegendQuery = {
  by: By;
  /** The first and the last of the moments. */
  from: number;
  to: number;
  /** Whether it is about reserved ranges, and not about what is allocated. */
  reserved: boolean;
  /** How many groups it lists. */
  most: number;
  /** What is not faded. */
  search: Query | null;
};

/**
 * The largest groups at a moment, and what is left of all.
 */
export type Legend = {
  moment: number;
  /** The bytes of all groups. */
  bytes: number;
  /** How many of them the search finds; null where nothing is searched for. */
  found: number | null;
  /** Most bytes first. */
  groups: Array<GroupShare>;
  /** How many groups are not listed, and their bytes. */
  others: number;
  other_bytes: number;
};

/**
 * What one group holds.
 */
export type GroupShare = {
  /** As in `Holders`. */
  key: string;
  label: string;
  hue: number;
  bytes: number;
  /** The number of blocks or ranges. */
  count: number;
  /** How many of the bytes the search finds. */
  found: number;
  /** The stack that holds most of it; null where none was recorded. */
  stack: number | null;
};

/**
 * Groups of what is allocated in a part of each of two devices, each group where it holds most.
 */
export type HighestOfBothQuery = {
  /** The first and the last moment of the part. */
  from: number;
  to: number;
  by: By;
  search: Query | null;
  /** The position of the other file, and that of the device in it. */
  other_file: number;
  other_device: number;
  other_from: number;
  other_to: number;
};

/**
 * Groups with what each holds at its own highest; the moments of `holders` are those at which all of them together hold most.
 */
export type HighestOfBoth = {
  holders: Holders;
  /** For each group its own highest moment in the first device; `NONE` where it holds nothing there. */
  moment: U32s;
  /** The same of the other device. */
  other_moment: U32s;
};

/**
 * Groups of what is allocated at a moment, most bytes first; compared with another moment or another recording, what grew most first
 * and what shrank most last.
 */
export type Holders = {
  /** Names each group, at any moment of the recording. */
  key: Array<string>;
  /** What each shares, in words. */
  label: Array<string>;
  /** By what each is coloured: see [`Groups`](super::groups::Groups). */
  hue: U32s;
  /** 1 where the search finds some of it, at either moment. */
  found: U8s;
  now: HeldAt;
  /** At the moment, or of the recording, that is compared with. */
  before: HeldAt | null;
};

/**
 * What the groups hold at a moment.
 */
export type HeldAt = {
  moment: number;
  counters: ByKind<number>;
  bytes: F64s;
  requested: F64s;
  /** The number of blocks. */
  count: U32s;
  /** The stack that holds most of each. */
  stack: U32s;
};

/**
 * The call tree of what is live at a moment, and of what was live at another: each call before what it calls, those that weigh most first.
 */
export type Calls = {
  /** The position of the caller; `NONE` of the outermost. */
  parent: U32s;
  /** The frame; `NONE` where the node stands for something else. */
  frame: U32s;
  /** What a node without a frame stands for: a position in `words`. */
  word: U8s;
  words: Array<string>;
  /** What was allocated there and below, now and before. */
  bytes: F64s;
  count: U32s;
  bytes_before: F64s;
  count_before: U32s;
  /** How many of the bytes the search finds. */
  found: F64s;
  /** The larger of the bytes now and before, added up from the innermost calls. */
  weight: F64s;
};

/**
 * What is live at a moment, so that all that is shown is of one.
 */
export type Live = {
  holders: Holders;
  calls: Calls;
  /** Bytes for each of `CATEGORIES`; null as long as nobody has asked what memory is for. */
  categories: Array<number> | null;
  /** How many blocks are allocated, and how many of them, and of their bytes, the search finds. */
  blocks: number;
  found_blocks: number;
  found_bytes: number;
};

/**
 * Segments and blocks at a moment, both by address. What no block covers is free.
 */
export type Layout = {
  moment: number;
  counters: ByKind<number>;
  segments: LayoutSegments;
  blocks: LayoutBlocks;
};

/**
 * An expandable segment comes in the pieces in which it was mapped; blocks reach across pieces that touch.
 */
export type LayoutSegments = {
  address: F64s;
  bytes: F64s;
  tags: U32s;
  /** A position in `SEGMENT_KINDS`. */
  kind: U8s;
  /** 1 where the segment is expandable. */
  expandable: U8s;
  stack: U32s;
  from: U32s;
};

/**
 * The active blocks of a layout.
 */
export type LayoutBlocks = {
  allocation: U32s;
  address: F64s;
  bytes: F64s;
  requested: F64s;
  /** 1 where the block was freed and waits for another stream. */
  pending: U8s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`. */
  purpose: U8s;
  from: U32s;
  /** 1 where the block was live before recording began. */
  preexisting: U8s;
};

/**
 * Some events, in order.
 */
export type Events = {
  /** The number of the first of them. */
  first: number;
  /** A position in `ACTIONS`. */
  action: U8s;
  address: F64s;
  bytes: F64s;
  /** NaN where it was not recorded. */
  time_us: F64s;
  stack: U32s;
  tags: U32s;
  /** The allocation that it makes or frees. */
  allocation: U32s;
};

/**
 * Everything about one allocation.
 */
export type Allocation = {
  id: number;
  address: number;
  /** Which of the allocations at this address it is, from 0. */
  version: number;
  requested: number;
  /** The bytes of its block. */
  bytes: number;
  /** The moment after it was made; 0 of what was live before recording began. */
  from: number;
  /** The moment after it was freed. */
  freed: number | null;
  /** The moment after its memory was available again, which may be later than `freed`: other streams may use it on. */
  to: number | null;
  from_us: number | null;
  freed_us: number | null;
  to_us: number | null;
  stack: number | null;
  free_stack: number | null;
  /** The forward pass behind it, where anomaly mode saw one: lines of text, outermost call first. */
  forward: Array<string>;
  tags: number;
  /** A position in the device's `purposes`. */
  purpose: number;
  /** A position in `ORIGINS`. */
  origin: number;
  size_inferred: boolean;
  /** Allocated bytes right after it was made. */
  total: number;
};

/**
 * Asks for some rows of the table of allocations.
 */
export type AllocationsQuery = {
  search: Query | null;
  among: Among;
  sort: AllocationColumn;
  descending: boolean;
  /** The row to begin with, and how many. */
  first: number;
  count: number;
};

/**
 * What the table is sorted by. What has no value stands last in both directions; of equal ones the older comes first.
 */
export type AllocationColumn = "allocation" | "address" | "requested_bytes" | "block_bytes" | "alloc_event" | "free_event" | "lifetime_events" | "lifetime_us" | "stream" | "pool" | "category" | "line" | "layer" | "step" | "region";

/**
 * Which allocations the table has, where nothing is searched.
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
 * Some rows of the table of allocations.
 */
export type Allocations = {
  /** How many rows the table has, and their bytes added up. */
  count: number;
  bytes: number;
  /** The first of these rows. */
  first: number;
  /** The numbers of the allocations. */
  id: U32s;
  address: F64s;
  /** Which of the allocations at this address it is, from 0. */
  version: U32s;
  requested: F64s;
  /** The bytes of its block. */
  bytes_of: F64s;
  /** The moment after it was made, and that after it was freed. */
  from: U32s;
  freed: U32s;
  /** NaN where it is not known. */
  from_us: F64s;
  freed_us: F64s;
  stack: U32s;
  tags: U32s;
  /** Positions in the device's `purposes`. */
  purpose: U8s;
  /** Positions in `ORIGINS`. */
  origin: U8s;
  /** The step in which it was made, from 0. */
  step: U32s;
  /** The innermost annotated region around it: a position in `regions`. */
  region: U32s;
  regions: Array<string>;
};

/**
 * Tells which allocations are searched for: one condition, or several put together. A condition whose text means nothing does not
 * count, and the answer says why.
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
  "is": "allocated";
  spans: Array<[number, number]>;
} | {
  "is": "freed";
  spans: Array<[number, number]>;
};

/**
 * A text to find within others, without regard to letter case.
 */
export type Sought = {
  text: string;
  /** Whether it is a regular expression. */
  is_pattern: boolean;
};

/**
 * Where in a stack a text is looked for.
 */
export type FrameField = "any" | "file" | "function" | "line";

/**
 * Which tag a text is looked for in.
 */
export type TagField = "stream" | "pool" | "layer" | "context" | "metadata";

/**
 * How blocks compare with a size.
 */
export type SizeSign = "above" | "at_least" | "below" | "at_most" | "about";

/**
 * Allocations that a search finds: how many, which, and the largest of them.
 */
export type Found = {
  count: number;
  /** The bytes of all that were found, added up over the recording. */
  bytes: number;
  /** A bit for each allocation, the first in the lowest bit of the first byte: 1 where it was found. */
  allocations: U8s;
  /** The same for each reserved range. */
  ranges: U8s;
  /** The numbers of the largest. */
  id: U32s;
  /** For each of `CATEGORIES` 0 where the search finds nothing of it, as far as its conditions about categories tell. */
  categories: Array<number>;
  /** Why conditions do not count. */
  unclear: Array<string>;
  /** No condition counts: all is found. */
  is_empty: boolean;
};

/**
 * Asks where what a search finds lies in a window in which it is smaller than a pixel.
 */
export type SpecksQuery = {
  search: Query;
  axis: Axis;
  from: number;
  to: number;
  width: number;
  /** The bytes of a pixel. */
  bytes: number;
};

/**
 * What a search finds and a picture cannot show.
 */
export type Specks = {
  /** 1 for each pixel column in which such an allocation begins; what began before the window stands in the first. */
  at: U8s;
  count: number;
};

/**
 * Asks where an allocation lies in the stack.
 */
export type PlaceQuery = {
  id: number;
  stacked: ByteKind;
};

/**
 * Where an allocation lies in the stack.
 */
export type Place = {
  /** Its first moment, and the first at which it is there no more; the end of the recording where it stays. */
  from: number;
  to: number;
  from_us: number | null;
  to_us: number | null;
  /** Its bytes as they are stacked. */
  bytes: number;
  /** What lies below it at its first moment, and at its last: no more than at the first. */
  below_first: number;
  below_last: number;
};

/** What is marked along a recording. */
export const MARKERS = [
  'oom',
  'snapshot',
  'step',
  'region',
] as const;

/**
 * What is marked along the recording: failed requests and snapshots, then steps, then runs of regions.
 */
export type Markers = {
  /** A position in `MARKERS`. */
  kind: U8s;
  /** The number of the step, or of the run among the regions. */
  number: U32s;
  /** The moment after its event, of what has several the first. */
  moment: U32s;
  /** Microseconds after the first event; NaN where the recording has no times. */
  time_us: F64s;
  /** Bytes allocated at that moment. */
  allocated: F64s;
  /** Bytes of a request that failed. */
  requested: F64s;
};

/**
 * Annotated regions: one entry a run, outermost first.
 */
export type Regions = {
  names: Array<string>;
  /** A position in `names`. */
  name: U32s;
  /** The row in which it is drawn: below those around it, and apart from those that overlap it. */
  row: U8s;
  /** The last moments before anything happened in the run, and in it. */
  from: U32s;
  to: U32s;
  from_us: F64s;
  to_us: F64s;
};

/**
 * Every range of memory that was reserved, by its first moment, and the highest bytes of each pool.
 */
export type Segments = {
  address: F64s;
  bytes: F64s;
  from: U32s;
  /** `NONE` where it is still there at the end. */
  to: U32s;
  tags: U32s;
  /** A position in `SEGMENT_KINDS`. */
  kind: U8s;
  /** 1 where the segment is expandable. */
  expandable: U8s;
  stack: U32s;
  pools: Array<PoolPeaks>;
  /** The reserved bytes of each pool over time, the default pool first. */
  courses: Array<PoolCourse>;
};

/**
 * The highest reserved and active bytes of a pool on a stream.
 */
export type PoolPeaks = {
  pool: [number, number] | null;
  stream: number;
  peak_reserved: number;
  peak_active: number;
};

/**
 * The reserved bytes of a pool, of all its streams, over time.
 */
export type PoolCourse = {
  pool: [number, number] | null;
  /** `private pool (1, 0)`. */
  name: string;
  /** What it is, as far as its number tells; null of the default pool, and where no pool is recorded. */
  kind: string | null;
  /** The stack that reserved its first memory. */
  stack: number;
  peak_reserved: number;
  /** The first moment at which most of it was active. */
  fullest_moment: number;
  /** Moments and the bytes from there on, in order; of many changes in a row the highest. */
  points: Array<[number, number]>;
};

/**
 * What a pool holds at a moment.
 */
export type PoolQuery = {
  pool: [number, number] | null;
  moment: number;
  by: By;
};

/**
 * What a pool holds.
 */
export type PoolHeld = {
  reserved: number;
  allocated: number;
  /** Groups of what is allocated in it. */
  holders: Holders;
};

/**
 * The free blocks at a moment, the largest first.
 */
export type Holes = {
  moment: number;
  /** What the event right before the moment asked for; null where it asked for nothing. */
  asked: Asked | null;
  /** How many holes there are, and the bytes of all; those in the columns are the largest. */
  count: number;
  total: number;
  address: F64s;
  bytes: F64s;
  tags: U32s;
  /** 1 where it is a whole segment, which can go back to the device. */
  whole: U8s;
  /** Why it cannot serve what was asked for: a position in `reasons`, which is the length of `reasons` where it could. */
  why: U8s;
  reasons: Array<string>;
  /** The allocations in front of it and behind it. */
  before: U32s;
  after: U32s;
  /** How much lies between blocks, in a sentence; empty where nothing does. */
  pinned: string;
  /** The lines that pin it, those that pin most first. */
  pins: Array<PinningLine>;
  /** How many more lines do. */
  more_pins: number;
};

/**
 * A request of an event.
 */
export type Asked = {
  event: number;
  /** After rounding. */
  bytes: number;
  failed: boolean;
  /** What the device had free, where the request failed. */
  device_free: number | null;
  /** The largest hole that the request could have come from if only it were large enough: its position among the holes. */
  largest: number | null;
};

/**
 * A line whose blocks keep free memory from joining.
 */
export type PinningLine = {
  /** The same in a sentence. */
  told: string;
  line: string;
  bytes: number;
  /** The largest hole without its blocks. */
  joined: number;
  /** The stack of the largest of its blocks. */
  stack: number;
};

/**
 * How long a hole has been there.
 */
export type HoleSince = {
  /** The moment since which all of it is free. */
  since: number;
  /** The last allocation that lay there; null where it was reserved then. */
  allocation: number | null;
  /** Where that was freed. */
  free_stack: number;
};

/**
 * What the report finds on a device, as data and in sentences.
 */
export type Report = {
  /** The device's part of `vramscope report --json`. */
  device: ReportDevice;
  /** What is said of each of `ooms`, in their order. */
  ooms: Array<OomFinding>;
  /** What to change after an out of memory, in sentences; null where there was none. */
  best_setting: string | null;
};

/**
 * What is said of a request that failed.
 */
export type OomFinding = {
  /** Which free blocks were of no use to the request and why, a clause each. */
  unusable: Array<string>;
  /** Why it failed. */
  cause: string;
  /** How much free memory lay between blocks, and the lines that pinned it, a sentence each; empty where none did. */
  pinned: Array<string>;
};

/**
 * The recording replayed under its own settings and under others.
 */
export type Replay = {
  /** The device's part of `vramscope replay --json`. */
  device: ReplayDevice;
  /** Reserved bytes under each of the settings tried: moment and bytes, at each change. */
  lines: Array<Array<[number, number]>>;
  /** How large the device is, and from where that is known, in a sentence. */
  device_size: string;
  /** How little any allocator could do with, and how sure that is: two sentences. */
  floors: [string, string];
  /** What comes nearest where nothing fits, in a sentence. */
  nearest: string | null;
  /** The smallest GPU on which it fits, in a sentence, where that was asked for and there is one. */
  smallest_gpu: string | null;
  trust: ReplayTrust;
};

/**
 * What to replay, as the options of `vramscope replay`.
 */
export type ReplayQuery = {
  /** One setting, compared with the recorded one; null: those that often help. */
  conf: string | null;
  /** Bytes of the device; null: as the recording shows it. */
  capacity: number | null;
  /** What of it the allocator cannot have. */
  overhead: number;
  /** Look for the smallest device and the smallest GPU instead. */
  find_capacity: boolean;
};

/**
 * How far the numbers of a replay can be trusted, in the words of the report.
 */
export type ReplayTrust = {
  /** The verdict in a few words. */
  title: string;
  /** What the replay reproduced; null where it did not reproduce the recording. */
  reproduced: string | null;
  /** Why the replay is approximate, a sentence each; empty where it is exact. */
  doubts: Array<string>;
  /** Further reasons, which hold only for settings other than the recorded ones. */
  what_if_doubts: Array<string>;
};

/**
 * Whether PyTorch takes a setting.
 */
export type SettingCheck = {
  /** Why it refuses it; null where it takes it. */
  refused: string | null;
};

/**
 * A GPU that is known.
 */
export type KnownGpu = {
  name: string;
  /** As its driver names it. */
  driver_name: string;
  bytes: number;
};

/**
 * What changed from one recording to another at the peaks of their allocated bytes, in the words of `vramscope diff`.
 */
export type Comparison = {
  /** By how much the peaks differ, in a sentence. */
  verdict: string;
  /** Most telling first. */
  changes: Array<WhatChanged>;
  /** Empty where one of the two does not tell categories. */
  categories: Array<Held>;
};

/**
 * One thing that changed.
 */
export type WhatChanged = {
  /** The rule that found it, as `vramscope diff --json` names it. */
  kind: string;
  text: string;
  /** Bytes that it holds in the first recording, and in the second. */
  a: number;
  b: number;
  /** It is more than one percent of all that differs. */
  counts: boolean;
  /** The lines of it that differ most. */
  lines: Array<Held>;
};

/**
 * What a line or a category holds in both.
 */
export type Held = {
  name: string;
  a: number;
  b: number;
};
