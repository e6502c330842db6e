// Written by the tests of crates/vramscope-report from the structs in src/json: `INSTA_UPDATE=always cargo test -p
// vramscope-report`. docs/json.md tells what each key means.

/**
 * One device of the report.
 */
export type ReportDevice = {
  device: number;
  events: number;
  /** The last event before the highest allocated bytes; null where nothing rose above the start. */
  peak_event: number | null;
  peak_time_us: number | null;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_requested_bytes: number;
  end_allocated_bytes: number;
  end_active_bytes: number;
  end_reserved_bytes: number;
  end_segments: number;
  end_blocks: number;
  preexisting_bytes: number;
  /** Who held `peak_allocated_bytes`, most first. With `--at` it is left out. */
  holders_at_peak?: Array<Holder>;
  /** What `peak_allocated_bytes` was for, most first. With `--at` it is left out. */
  categories_at_peak?: Array<CategoryBytes>;
  /** With `--at`: the event, the counters after it, and who held `allocated_bytes` then. */
  at?: ReportMoment;
  /** Why it is said what the allocated bytes were for, at the moment of the holders. */
  category_reasons: Array<CategoryReason>;
  /** The steps of training or serving, where the program repeats itself. */
  steps?: Steps;
  pools: Array<Holder>;
  streams: Array<Holder>;
  /** What `--filter` left out of the holders. */
  filtered_out_bytes: number;
  ooms: Array<Oom>;
  /** Out-of-memory events beyond those in `ooms`. */
  more_ooms: number;
  /** After an out of memory, the setting that would have served best on the same device. */
  best_setting: BestSetting | null;
  /** After an out of memory, what else to change, where that takes the first cause away. */
  remedy: Remedy | null;
  /** Allocated bytes that the program gains with a step; null where it gains none, or no steps are known. */
  growth_per_step_bytes: number | null;
  leaks: Array<Leak>;
  fragmentation: Fragmentations;
  regions: Array<Region>;
  churn: Array<Churn>;
  quality: Quality;
};

export type ReportMoment = {
  event: number;
  requested_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  holders: Array<Holder>;
  categories: Array<CategoryBytes>;
};

export type Holder = {
  bytes: number;
  requested_bytes: number;
  count: number;
  /** What the group shares, as the text report names it. */
  key: string;
  /** Live before recording began; null in groups that do not tell it apart. */
  preexisting: boolean | null;
  /** Innermost frame first; of a group of several stacks the one that holds most. */
  stack: Array<ReportFrame>;
  /** Of memory live before recording whose allocation was not recorded: where it was freed. */
  freed_at?: Array<ReportFrame>;
  /** Outer frames of either that are not told, see [`MOST_FRAMES`]. */
  frames_left_out?: number;
};

/**
 * What memory is for.
 */
export type CategoryBytes = {
  /** See [`Category`](vramscope_trace::Category). */
  category: string;
  bytes: number;
  count: number;
};

/**
 * Why it is said of some memory what it was for.
 */
export type CategoryReason = {
  /** See [`Category`](vramscope_trace::Category). */
  category: string;
  bytes: number;
  count: number;
  /** What it stands on: `said`, `frames`, `lifetime`, `likeness`, `nothing`. */
  evidence: string;
  /** The name of the rule; null where the recording says it, or that it was there before. */
  rule: string | null;
  /** The reason, as half a sentence about "it". */
  because: string;
};

export type ReportFrame = {
  filename: string;
  line: number;
  name: string;
};

export type Oom = {
  event: number;
  time_us: number | null;
  requested_bytes: number;
  stream: number;
  device_free_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  /** Reserved and in no active block; none of it could serve the request, but for `usable_bytes`. */
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
  largest_free_block: FreeBlock | null;
  /** The device had room for it: a limit on reserved bytes stood in the way. */
  at_limit: boolean;
  /** Free on the device and reserved without use together would have been enough. */
  enough_in_total: boolean;
  missing_bytes: number;
  /** The device's memory; null where it was not recorded. */
  device_total_bytes: number | null;
  /** What the request lacked of the device. */
  lacking_bytes: number;
  /** False where it may be less. */
  lacking_is_exact: boolean;
  /** Why it failed, the first cause first. */
  causes: Array<OomCause>;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** Who held `allocated_bytes`, by line. */
  holders: Array<Holder>;
  /** Free memory in holes that blocks keep from joining, each hole once. */
  pinned_bytes: number;
  /** The lines whose blocks do so, most bytes first. A hole between two lines counts for both. */
  pinned: Array<Pin>;
};

/**
 * One reason why a request failed.
 */
export type OomCause = {
  cause: string;
  bytes: number;
  /** Without it the request would have been served. */
  decisive: boolean;
  /** Of a leak: the line; else null. */
  line: string | null;
  /** Of a leak: what it gains with a step; null where that is not known. */
  bytes_per_step: number | null;
};

/**
 * A line whose blocks keep free memory from joining.
 */
export type Pin = {
  key: string;
  /** Live before recording began. */
  preexisting: boolean;
  /** The holes beside its blocks, each once. */
  bytes: number;
  holes: number;
  /** Part of `bytes` in segments in which no other line has a block. */
  alone_bytes: number;
  /** The largest hole that there would be without its blocks. */
  joined_bytes: number;
  /** Its blocks beside these holes. */
  blocks: number;
  block_bytes: number;
};

export type BestSetting = {
  conf: string;
  peak_reserved_bytes: number;
  /** Up to the end of the recording. */
  fits: boolean;
  /** Where it does not fit. */
  nearest: Nearest | null;
  exact: boolean;
  /** Items that the recorded settings lack, and those that they have too many. */
  add: Array<string>;
  remove: Array<string>;
  /** Where the program grows: how many more steps it would run before it fails again. */
  more_steps: number | null;
  /** The setting that PyTorch's error text recommends: `was_on`, `helps` or `does_not_help`. */
  recommended: string;
};

/**
 * A change other than of settings.
 */
export type Remedy = {
  /** `remove_limit`, `free_outside`, `default_pool`, `no_waiting` or `larger_device`. */
  change: string;
  peak_reserved_bytes: number;
  /** Of a larger device: its bytes. */
  needed_bytes: number | null;
};

export type Unusable = {
  why: Why;
  bytes: number;
  blocks: number;
  largest_bytes: number;
};

/**
 * Why a free block could not serve a request.
 */
export type Why = "too_small" | "other_stream" | "other_size_class" | "other_pool" | "max_split_size";

export type FreeBlock = {
  address: number;
  bytes: number;
  stream: number;
  kind: string;
  pool: [number, number] | null;
};

export type Leak = {
  line: ReportFrame;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  stacks: number;
  /** Fewest live allocations from each tenth of the run on. */
  floor: Array<number>;
  allocations: number;
  kept: number;
  kept_bytes: number;
  /** Bytes of those among the kept that had been made by the end of each tenth of the run. */
  kept_bytes_by_then: Array<number>;
  /** Bytes of those that a step of the program made: the median of all steps. Null where no steps are known. */
  kept_bytes_per_step: number | null;
};

export type Fragmentations = {
  at_peak: Fragmentation | null;
  at_end: Fragmentation | null;
};

export type Fragmentation = {
  internal_bytes: number;
  external_bytes: number;
  whole_segments_bytes: number;
  free_blocks: number;
  largest_free_block: FreeBlock | null;
  /** The request that the next two are told for. */
  request_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
};

/**
 * What is known of steps.
 */
export type Steps = {
  /** `annotations`, `optimizer` or `rhythm`. */
  told_by: string;
  /** The number of the first step after the first that makes other allocations than most, from 0. */
  first_unusual: number | null;
  /** In order. */
  steps: Array<Step>;
};

/**
 * One step.
 */
export type Step = {
  /** The number of its first event, and of the first behind it. */
  first_event: number;
  end_event: number;
  peak_allocated_bytes: number;
  /** The last event before that peak; null before the first event. */
  peak_event: number | null;
  /** Bytes of all blocks that were handed out in it, and how many. */
  allocated_bytes: number;
  allocations: number;
  /** Allocated bytes after it minus those before. */
  kept_bytes: number;
  /** Most steps make the same allocations. */
  is_usual: boolean;
};

export type Region = {
  name: string;
  count: number;
  peak_allocated_bytes: number;
  peak_above_start_bytes: number;
  net_bytes: number;
  total_us: number;
  first: RegionRun;
  typical: RegionRun;
  largest: RegionRun;
};

/**
 * One run of a region.
 */
export type RegionRun = {
  peak_allocated_bytes: number;
  peak_above_start_bytes: number;
  net_bytes: number;
  us: number;
  /** The number of its first event, and of the first behind it; not of figures of several runs. */
  first_event?: number;
  end_event?: number;
};

/**
 * Totals over the run of one line.
 */
export type Churn = {
  key: string;
  total_bytes: number;
  count: number;
};

export type Quality = {
  /** Allocated and active bytes are exact. */
  exact: boolean;
  preexisting_blocks: number;
  inferred_sizes: number;
  size_mismatches: number;
  lost_events: number;
  segment_contradictions: number;
  end_state_disagreements: number;
  end_state_disagreement_bytes: number;
  settings_assumed: boolean;
  probably_overflowed: boolean;
  /** The allocator's rules give every address, segment event and the layout at the end as recorded. */
  reproduced: boolean | null;
  /** Kinds of events that were left out. */
  skipped_actions: Array<string>;
  /** When blocks began and ended is partly inferred, for lack of those. */
  lifetimes_inferred: boolean;
  /** No segment event was recorded, and whether they were left out cannot be told. */
  no_segment_events: boolean;
};

export type ReplayDevice = {
  device: number;
  events: number;
  /** The release whose rules held; null where the recording is not of PyTorch. */
  torch: string | null;
  /** The settings of `replayed`. */
  conf: string;
  recorded_conf: string;
  capacity_bytes: number | null;
  overhead_bytes: number | null;
  /** `given`, or `recording`: what the allocator had when the recording ran out of memory. */
  capacity_from: string | null;
  recorded: Recorded;
  replayed: Replayed;
  /** Null where the settings asked for are not the recorded ones, nothing was recorded, or events were left out without which it cannot be told. */
  reproduces_recording: boolean | null;
  first_divergence: Divergence | null;
  /** The layout at the end could be compared, too. */
  compared_end: boolean;
  /** The numbers of `replayed` are exact. */
  exact: boolean;
  approximate_because: Array<string>;
  /** Settings compared, the best first. */
  what_if: Array<Tried>;
  /** The same as `approximate_because`, for settings that are not the recorded ones. */
  what_if_approximate_because: Array<string>;
  floors: Floors;
  /** With `--find-capacity`; null where none was found. */
  smallest_capacity_bytes: number | null;
  /** With `--find-capacity`: the known GPU with the least memory on which it fits. */
  smallest_gpu: FittingGpu | null;
  /** Where nothing that was tried fits on the device. */
  nearest: Nearest | null;
};

export type Recorded = {
  peak_reserved_bytes: number;
  segments_allocated: number;
  segments_freed: number;
};

export type Replayed = {
  oom: ReplayOom | null;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Reserved and not active where most was active. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable ones do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null where the size of the device is not known. */
  fits: boolean | null;
  /** Requests that failed when recorded and are served here; what the program would have done then is not known. */
  rescued_requests: number;
  /** Where the replay ended because the program would have failed there. */
  stopped_at_event: number | null;
};

export type Outcome = {
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Reserved and not active where most was active. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable ones do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null where the size of the device is not known. */
  fits: boolean | null;
  /** Requests that failed when recorded and are served here; what the program would have done then is not known. */
  rescued_requests: number;
  /** Where the replay ended because the program would have failed there. */
  stopped_at_event: number | null;
};

export type ReplayOom = {
  /** It failed when recorded, too. */
  recorded: boolean;
  event: number;
  time_us: number | null;
  requested_bytes: number;
  stream: number;
  device_free_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  /** Reserved and in no active block; none of it could serve the request, but for `usable_bytes`. */
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
  largest_free_block: FreeBlock | null;
  /** The device had room for it: a limit on reserved bytes stood in the way. */
  at_limit: boolean;
  /** Free on the device and reserved without use together would have been enough. */
  enough_in_total: boolean;
  missing_bytes: number;
  /** The device's memory; null where it was not recorded. */
  device_total_bytes: number | null;
  /** What the request lacked of the device. */
  lacking_bytes: number;
  /** False where it may be less. */
  lacking_is_exact: boolean;
  /** Why it failed, the first cause first. */
  causes: Array<OomCause>;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** Who held `allocated_bytes`, by line. */
  holders: Array<Holder>;
  /** Free memory in holes that blocks keep from joining, each hole once. */
  pinned_bytes: number;
  /** The lines whose blocks do so, most bytes first. A hole between two lines counts for both. */
  pinned: Array<Pin>;
};

export type Tried = {
  conf: string;
  /** These are the recorded settings. */
  recorded: boolean;
  oom_event: number | null;
  /** How it differs from the recorded settings. */
  add: Array<string>;
  remove: Array<string>;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Reserved and not active where most was active. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable ones do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null where the size of the device is not known. */
  fits: boolean | null;
  /** Requests that failed when recorded and are served here; what the program would have done then is not known. */
  rescued_requests: number;
  /** Where the replay ended because the program would have failed there. */
  stopped_at_event: number | null;
};

export type Floors = {
  active_bytes: number;
  packed_bytes: number;
  packed_is_optimal: boolean;
};

export type Divergence = {
  /** Null where every event is reproduced and the layout at the end is not. */
  event: number | null;
  recorded: Side | null;
  replayed: Side | null;
};

export type Side = {
  /** The event's action, or the block's state. */
  what: string;
  address: number;
  bytes: number;
};

export type FittingGpu = {
  name: string;
  driver_name: string;
  total_bytes: number;
  /** What of it the allocator cannot have. */
  overhead_bytes: number;
  peak_reserved_bytes: number;
  num_alloc_retries: number;
};

/**
 * The setting that needs least where none fits.
 */
export type Nearest = {
  conf: string;
  /** A device on which it fits. */
  needed_bytes: number;
  /** By how much the device is smaller. */
  missing_bytes: number;
};
