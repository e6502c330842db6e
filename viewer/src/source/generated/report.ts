// Written by the tests of crates/vramscope-report from its structs: `INSTA_UPDATE=always cargo test -p
// vramscope-report`. docs/json.md describes the keys.

/**
 * A known problem that a rule recognized, with its evidence.
 */
export type AllocatorFinding = {
  /** The rule, such as `stranded_cache`. */
  finding: string;
  /** Bytes that the problem costs or concerns. */
  bytes: number;
  /** `shown`: events or an exact replay show it; `likely`: events show it, if the program goes on as before; `possible`: only the end state shows it. */
  certainty: string;
  /** The event that shows it; null if the end state does. */
  event: number | null;
  /** The stack of that event, innermost frame first. */
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** The problem, in words. */
  title: string;
  /** The evidence, in sentences. */
  evidence: Array<string>;
  /** What to change, in sentences. */
  action: string;
};

/**
 * The best allocator setting found after an out of memory.
 */
export type BestSetting = {
  conf: string;
  peak_reserved_bytes: number;
  /** Whether the recording fits up to its end. */
  fits: boolean;
  /** Present if it does not fit. */
  nearest: Nearest | null;
  exact: boolean;
  /** Items to add to and remove from the recorded settings. */
  add: Array<string>;
  /** Items to remove from the recorded settings. */
  remove: Array<string>;
  /** If the program grows: the number of further steps before it fails again. */
  more_steps: number | null;
  /** Effect of the setting that PyTorch's error message recommends: `was_on`, `helps` or `does_not_help`. */
  recommended: string;
};

/**
 * The bytes of a category.
 */
export type CategoryBytes = {
  /** The name of the category. `temporary` includes the workspaces of libraries. */
  category: string;
  bytes: number;
  count: number;
  /** The bytes of workspaces in `bytes`; omitted if there are none. */
  workspace_bytes?: number;
};

/**
 * The evidence for a category.
 */
export type CategoryReason = {
  /** The name of the category. */
  category: string;
  bytes: number;
  count: number;
  /** The kind of evidence: `said`, `frames`, `lifetime`, `likeness`, `nothing`. */
  evidence: string;
  /** The name of the rule; null if the category is recorded or the memory is preexisting. */
  rule: string | null;
  /** The reason, as a clause about "it". */
  because: string;
};

/**
 * Totals of one line over the run.
 */
export type Churn = {
  key: string;
  total_bytes: number;
  count: number;
};

/**
 * The first difference between replay and recording.
 */
export type Divergence = {
  /** Null if every event is reproduced, but not the layout at the end. */
  event: number | null;
  recorded: Side | null;
  replayed: Side | null;
};

/**
 * A line whose requests were not at planned places.
 */
export type DynamicLine = {
  line: string;
  requests: number;
  bytes: number;
};

/**
 * A failed request.
 */
export type FailedRequest = {
  event: number;
  time_us: number | null;
  requested_bytes: number;
  /** Null if it was not recorded. */
  device_free_bytes: number | null;
};

/**
 * A GPU on which a run fits.
 */
export type FittingGpu = {
  name: string;
  driver_name: string;
  total_bytes: number;
  /** The part of `total_bytes` that the allocator cannot use. */
  overhead_bytes: number;
  peak_reserved_bytes: number;
  num_alloc_retries: number;
};

/**
 * A change of the program that the leak or the failed request points to.
 */
export type Fix = {
  /** `drop_checkpoint`, `drop_earlier_model`, `fewer_copies`, `autocast_cache`, `eval_accumulation`, `no_grad`, `detach`, `fewer_results`, `smaller_optimizer`, `chunked_loss`, `fused_attention`, `limit_input`, `in_parts` or `smaller_batch`. */
  change: string;
  /** The line that made most of the memory, if there is one. */
  line: ReportFrame | null;
  /** Bytes of the memory that the change is about. */
  bytes: number;
  /** `likely` or `possible`. */
  certainty: string;
};

/**
 * The least memory that any allocator needs.
 */
export type Floors = {
  active_bytes: number;
  packed_bytes: number;
  packed_is_optimal: boolean;
};

/**
 * Reserved memory that is not usable.
 */
export type Fragmentation = {
  internal_bytes: number;
  external_bytes: number;
  whole_segments_bytes: number;
  free_blocks: number;
  largest_free_block: FreeBlock | null;
  /** The request size that `usable_bytes` and `unusable` apply to. */
  request_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
};

/**
 * Fragmentation at the peak and at the end; null if nothing was recorded.
 */
export type Fragmentations = {
  at_peak: Fragmentation | null;
  at_end: Fragmentation | null;
};

/**
 * A free block of a segment.
 */
export type FreeBlock = {
  address: number;
  bytes: number;
  stream: number;
  kind: string;
  pool: [number, number] | null;
};

/**
 * A capture of a CUDA graph, or several with no allocation outside of their pool in between.
 */
export type GraphCapture = {
  /** The event of its first allocation. */
  event: number;
  allocations: number;
  largest_request_bytes: number;
  /** Bytes of segments that the pool reserved in it. */
  reserved_bytes: number;
  /** Bytes of the pool's blocks that are allocated after it, minus those before it. */
  allocated_bytes: number;
};

/**
 * A group of live allocations.
 */
export type Holder = {
  bytes: number;
  requested_bytes: number;
  count: number;
  /** The shared property of the group, named as in the text report. */
  key: string;
  /** Whether the allocations were live before recording began; null in groups that do not distinguish it. */
  preexisting: boolean | null;
  /** Innermost frame first; for a group of several stacks, the stack with the most bytes. */
  stack: Array<ReportFrame>;
  /** For memory live before recording whose allocation was not recorded: the stack that freed it. */
  freed_at?: Array<ReportFrame>;
  /** Number of outer frames left out of `stack` or `freed_at`, beyond the 1,000 innermost. */
  frames_left_out?: number;
};

/**
 * The course of a number of bytes.
 */
export type HostCourse = {
  /** At the first reading. */
  start_bytes: number;
  peak_bytes: number;
  /** At the last reading. */
  end_bytes: number;
  /** Growth in bytes per hour, from the median of the second quarter of the time to that of the last; null for less than ten minutes. */
  bytes_per_hour: number | null;
};

/**
 * The host memory of the recorded process over time, as Linux counts it.
 */
export type HostMemory = {
  /** The time of the first reading, in microseconds since the Unix epoch. */
  from_time_us: number;
  /** The time of the last reading, in microseconds since the Unix epoch. */
  to_time_us: number;
  /** Resident bytes of the process. */
  resident: HostCourse;
  /** Of these, anonymous memory. */
  anonymous: HostCourse;
  /** Of these, pages of mapped files. */
  mapped_files: HostCourse;
  /** Of these, shared memory. */
  shared: HostCourse;
  /** Bytes that the process pinned through the driver. */
  pinned: HostCourse;
  /** The page cache of the cgroup of the process; null if it was not read. */
  page_cache: HostCourse | null;
};

/**
 * A line whose live allocations keep growing.
 */
export type Leak = {
  line: ReportFrame;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  stacks: number;
  /** Fewest live allocations from the start of each tenth of the run until its end. */
  floor: Array<number>;
  allocations: number;
  kept: number;
  kept_bytes: number;
  /** Bytes of the retained allocations that had been allocated by the end of each tenth of the run. */
  kept_bytes_by_then: Array<number>;
  /** Bytes of the retained allocations that one step allocated: the median of all steps. Null if no steps are known. */
  kept_bytes_per_step: number | null;
  /** Number of repetitions in which it grew: steps, epochs, requests or calls. */
  repetitions: number;
  /** Bytes that one repetition retains: the mean. */
  kept_bytes_per_repetition: number;
  /** `shown`, `likely` or `possible`. */
  certainty: string;
};

/**
 * Settings under which a run reserves less.
 */
export type LessReserved = {
  /** Items to add to the recorded settings. */
  add: Array<string>;
  /** Items to remove from the recorded settings. */
  remove: Array<string>;
  /** The peak of reserved bytes in a replay with this change. */
  peak_reserved_bytes: number;
  exact: boolean;
};

/**
 * The setting that needs the least memory, if none fits.
 */
export type Nearest = {
  conf: string;
  /** Size of a device that fits the run. */
  needed_bytes: number;
  /** `needed_bytes` minus the device size. */
  missing_bytes: number;
};

/**
 * An allocation request that ran out of memory.
 */
export type Oom = {
  event: number;
  time_us: number | null;
  requested_bytes: number;
  stream: number;
  device_free_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  /** Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request. */
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
  largest_free_block: FreeBlock | null;
  /** Whether the device had room for the request, and a limit on reserved bytes prevented it. */
  at_limit: boolean;
  /** Whether the free device memory and the unused reserved memory together would have been enough. */
  enough_in_total: boolean;
  missing_bytes: number;
  /** Total device memory; null if it was not recorded. */
  device_total_bytes: number | null;
  /** Device memory missing for the request. */
  lacking_bytes: number;
  /** False if `lacking_bytes` is an upper bound. */
  lacking_is_exact: boolean;
  /** The causes, main cause first. */
  causes: Array<OomCause>;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** Holders of `allocated_bytes`, by line. */
  holders: Array<Holder>;
  /** Free memory in holes between blocks; each hole counts once. */
  pinned_bytes: number;
  /** The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for both. */
  pinned: Array<Pin>;
};

/**
 * One cause of a failed request.
 */
export type OomCause = {
  cause: string;
  bytes: number;
  /** Whether the program would have gone on without it. */
  decisive: boolean;
  /** How far the recording shows it: `shown`, `likely` or `possible`. */
  certainty: string;
  /** For a leak: the line; else null. */
  line: string | null;
  /** For a leak: its growth per step; null if it is unknown. */
  bytes_per_step: number | null;
  /** For a leak: the bytes that one repetition retains, whatever repeats; null for other causes. */
  bytes_per_repetition: number | null;
};

/**
 * The result of replaying with one setting.
 */
export type Outcome = {
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Bytes reserved and not active at the peak of active bytes. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable segments do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null if the device size is unknown. */
  fits: boolean | null;
  /** Number of requests that failed in the recording and succeed here. What the program would have done afterwards is unknown. */
  rescued_requests: number;
  /** The event at which the replay stopped, because the program would have failed there. */
  stopped_at_event: number | null;
};

/**
 * One phase of a step.
 */
export type Phase = {
  /** `forward`, `backward`, `optimizer` or `zero_grad`. */
  phase: string;
  /** `recorded`, `region`, `stacks` or `rhythm`; the last two are inferred. */
  told_by: string;
  /** Number of the step, from 1; null outside of all steps. */
  step: number | null;
  /** Half-open range `first_event..end_event` of event indices. */
  first_event: number;
  /** One past the last event index. */
  end_event: number;
  peak_allocated_bytes: number;
  /** Event index of the peak; null before the first event. */
  peak_event: number | null;
  /** Bytes and number of all blocks allocated in the phase. */
  allocated_bytes: number;
  allocations: number;
  /** Allocated bytes after the phase minus those before. */
  kept_bytes: number;
};

/**
 * A line whose blocks keep free memory apart.
 */
export type Pin = {
  key: string;
  /** Whether the blocks were live before recording began. */
  preexisting: boolean;
  /** Bytes of the holes next to its blocks; each hole counts once. */
  bytes: number;
  holes: number;
  /** The part of `bytes` in segments without blocks of other lines. */
  alone_bytes: number;
  /** The largest hole without these blocks. */
  joined_bytes: number;
  /** The number of its blocks next to these holes. */
  blocks: number;
  block_bytes: number;
};

/**
 * The result of replaying with a plan before the allocator of the replayed settings.
 */
export type PlanReplay = {
  /** The planned step, from 1; null if nothing repeats, or if the plan comes from a file. */
  step: number | null;
  /** Number of requests before the planned step. */
  startup_requests: number;
  /** Number of requests of the planned step. */
  step_requests: number;
  /** Bytes of the plan's segments. */
  planned_bytes: number;
  /** Whether streams share a segment. */
  shares_streams: boolean;
  /** Number of requests of a planned step that get memory which another stream used last, so that their stream waits for that one. */
  waits_per_step: number;
  /** Number of such requests of the replay. */
  waits: number;
  /** The result with a segment for each stream; null if streams share none, or if the plan comes from a file. */
  separate: Outcome | null;
  oom_event: number | null;
  /** Requests at their planned places. */
  planned: ServedRequests;
  /** Requests that the plan leaves to the allocator, because their lifetimes do not repeat. */
  left_to_allocator: ServedRequests;
  /** Requests that differ from the plan: another size, another order, or a private pool. */
  differing: ServedRequests;
  /** Requests whose planned places were still in use. */
  in_use: ServedRequests;
  /** Requests without memory at their planned places. */
  no_memory: ServedRequests;
  /** The lines with the most bytes that were not at planned places, largest first. */
  dynamic_lines: Array<DynamicLine>;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Bytes reserved and not active at the peak of active bytes. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable segments do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null if the device size is unknown. */
  fits: boolean | null;
  /** Number of requests that failed in the recording and succeed here. What the program would have done afterwards is unknown. */
  rescued_requests: number;
  /** The event at which the replay stopped, because the program would have failed there. */
  stopped_at_event: number | null;
};

/**
 * A private pool at the end of the recording.
 */
export type PrivatePool = {
  pool: [number, number];
  segments: number;
  reserved_bytes: number;
  allocated_bytes: number;
  blocks: number;
  /** The most bytes that were allocated in it. */
  peak_allocated_bytes: number;
  /** Whether it belongs to CUDA graphs, by its id or by the function that begins a capture. */
  of_graphs: boolean;
  /** What each capture of a CUDA graph added to the pool, in order. Captures are inferred: no allocation outside of the pool comes within one. */
  captures: Array<GraphCapture>;
};

/**
 * How reliable the numbers are.
 */
export type Quality = {
  /** Whether allocated and active bytes are exact. */
  exact: boolean;
  preexisting_blocks: number;
  inferred_sizes: number;
  size_mismatches: number;
  lost_events: number;
  segment_contradictions: number;
  end_state_disagreements: number;
  end_state_disagreement_bytes: number;
  /** Number of sizes that contradict each other, such as those of an allocation and its free. */
  size_contradictions: number;
  /** Whether events may be missing because the file is damaged. */
  damaged: boolean;
  /** Whether the recording ends before the program did: it was killed or is still running, or the file was cut. */
  ends_early: boolean;
  settings_assumed: boolean;
  /** Whether requested bytes, streams and pools are unknown: the recording was made from outside of the allocator. */
  seen_from_outside: boolean;
  /** Number of allocations that are older than the log, which was cut. */
  older_allocations: number;
  /** Whether the recorder was attached to a process that used a GPU already, so that memory from before is unknown. */
  attached: boolean;
  /** Only allocations of at least this many bytes have stacks; null for no such limit. */
  stacks_from_bytes: number | null;
  probably_overflowed: boolean;
  /** Whether the allocator's rules reproduce every address, every segment event and the layout at the end. */
  reproduced: boolean | null;
  /** Kinds of events that were left out of the recording. */
  skipped_actions: Array<string>;
  /** Whether lifetimes of blocks are partly inferred, because of `skipped_actions`. */
  lifetimes_inferred: boolean;
  /** Whether no segment event was recorded, and it is unknown whether they were left out. */
  no_segment_events: boolean;
};

/**
 * The figures of the recording itself.
 */
export type Recorded = {
  peak_reserved_bytes: number;
  segments_allocated: number;
  segments_freed: number;
};

/**
 * An annotated region of the program, over all its runs.
 */
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
  /** Half-open range `first_event..end_event` of event indices; absent for figures of several runs. */
  first_event?: number;
  /** One past the last event index. Both indices are present only for single runs. */
  end_event?: number;
};

/**
 * A change other than a setting.
 */
export type Remedy = {
  /** `remove_limit`, `free_outside`, `default_pool`, `no_waiting` or `larger_device`. */
  change: string;
  peak_reserved_bytes: number;
  /** For a larger device: its size in bytes. */
  needed_bytes: number | null;
};

/**
 * The result of replaying the recorded requests.
 */
export type ReplayDevice = {
  device: number;
  events: number;
  /** The PyTorch release whose rules were followed; null if the recording is not from PyTorch. */
  torch: string | null;
  /** The settings of `replayed`. */
  conf: string;
  recorded_conf: string;
  capacity_bytes: number | null;
  overhead_bytes: number | null;
  /** `given`, or `recording`: inferred from the allocator's memory when the recording ran out of memory. */
  capacity_from: string | null;
  recorded: Recorded;
  replayed: Replayed;
  /** Null if the requested settings differ from the recorded ones, nothing was recorded, or events that are needed for the comparison were left out. */
  reproduces_recording: boolean | null;
  first_divergence: Divergence | null;
  /** Whether the layout at the end could be compared. */
  compared_end: boolean;
  /** Whether the numbers of `replayed` are exact. */
  exact: boolean;
  approximate_because: Array<string>;
  /** The compared settings, best first. */
  what_if: Array<Tried>;
  /** Like `approximate_because`, for settings other than the recorded ones. */
  what_if_approximate_because: Array<string>;
  /** With `--plan`; null if it was not requested, or if the recording is too large for a plan. */
  plan: PlanReplay | null;
  floors: Floors;
  /** With `--find-capacity`; null if none was found. */
  smallest_capacity_bytes: number | null;
  /** With `--find-capacity`: the known GPU with the least memory that fits the run. */
  smallest_gpu: FittingGpu | null;
  /** Present if no tried setting fits on the device. */
  nearest: Nearest | null;
};

/**
 * The request that fails in a replay.
 */
export type ReplayOom = {
  /** Whether it also failed in the recording. */
  recorded: boolean;
  event: number;
  time_us: number | null;
  requested_bytes: number;
  stream: number;
  device_free_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  /** Reserved bytes outside of active blocks; only `usable_bytes` of them could serve the request. */
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Array<Unusable>;
  largest_free_block: FreeBlock | null;
  /** Whether the device had room for the request, and a limit on reserved bytes prevented it. */
  at_limit: boolean;
  /** Whether the free device memory and the unused reserved memory together would have been enough. */
  enough_in_total: boolean;
  missing_bytes: number;
  /** Total device memory; null if it was not recorded. */
  device_total_bytes: number | null;
  /** Device memory missing for the request. */
  lacking_bytes: number;
  /** False if `lacking_bytes` is an upper bound. */
  lacking_is_exact: boolean;
  /** The causes, main cause first. */
  causes: Array<OomCause>;
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** Holders of `allocated_bytes`, by line. */
  holders: Array<Holder>;
  /** Free memory in holes between blocks; each hole counts once. */
  pinned_bytes: number;
  /** The lines of the blocks next to these holes, most bytes first. A hole between blocks of two lines counts for both. */
  pinned: Array<Pin>;
};

/**
 * The result of the requested settings.
 */
export type Replayed = {
  oom: ReplayOom | null;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Bytes reserved and not active at the peak of active bytes. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable segments do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null if the device size is unknown. */
  fits: boolean | null;
  /** Number of requests that failed in the recording and succeed here. What the program would have done afterwards is unknown. */
  rescued_requests: number;
  /** The event at which the replay stopped, because the program would have failed there. */
  stopped_at_event: number | null;
};

/**
 * Modules that one line calls one after the other.
 */
export type ReportBlockCalls = {
  caller: ReportFrame;
  /** The path of the module that contains them; null if the recording has no modules. */
  container: string | null;
  /** Calls in a forward pass. */
  calls: number;
};

/**
 * Buffers of one collective operation on one stream, of one process group where it is known.
 */
export type ReportCollective = {
  /** `all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `gather`, `scatter`, `reduce`, `point_to_point`, `barrier` or `unknown`. */
  operation: string;
  /** The private pool that the process group created for its tensors; null if the process group is not recorded. */
  process_group_pool: [number, number] | null;
  /** The stream on which the buffers were allocated, as its address. */
  stream: number;
  /** Bytes at the event of the holders. */
  bytes: number;
  blocks: number;
  /** The most bytes of these buffers at one event. */
  peak_bytes: number;
  /** Number of allocations in the whole recording. */
  allocations: number;
  /** The frame of PyTorch that shows the operation, in the stack of the largest buffer. */
  frame: ReportFrame;
  /** The line of the user's code in that stack; null without one. */
  line: ReportFrame | null;
};

/**
 * One device of the report.
 */
export type ReportDevice = {
  device: number;
  events: number;
  /** Event index of the peak of allocated bytes; null if nothing rose above the start. */
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
  /** Holders of `peak_allocated_bytes`, largest first. Absent with `--at`. */
  holders_at_peak?: Array<Holder>;
  /** Categories of `peak_allocated_bytes`, largest first. Absent with `--at`. */
  categories_at_peak?: Array<CategoryBytes>;
  /** With `--at`: the event, and the counters and holders after it. */
  at?: ReportMoment;
  /** The evidence for the categories of the holders. */
  category_reasons: Array<CategoryReason>;
  /** The steps of training or serving, if the program repeats itself. */
  steps?: Steps;
  /** The phases of all steps, in order of time, if any are known. */
  phases?: Array<Phase>;
  /** Device memory of the process beside PyTorch's allocator, and host memory that it pinned, at the event of the holders. Only in logs of `vramscope run`. */
  libraries?: Array<ReportLibrary>;
  /** The driver's counts of the device's memory. Only in logs of `vramscope run`. */
  device_use?: ReportDeviceUse;
  /** Functions of the driver that may allocate memory, and whose calls the recorder counts and does not follow. Only in logs of `vramscope run`. */
  not_followed?: Array<ReportFunctionCalls>;
  pools: Array<Holder>;
  streams: Array<Holder>;
  /** Bytes of holders that `--filter` left out. */
  filtered_out_bytes: number;
  ooms: Array<Oom>;
  /** Out-of-memory events beyond those in `ooms`. */
  more_ooms: number;
  /** Three of these further events; null if there are none. */
  unexplained_ooms: UnexplainedOoms | null;
  /** After an out-of-memory failure: the setting that would have worked best on the same device. */
  best_setting: BestSetting | null;
  /** Other settings under which a run without a failed request reserves clearly less; null if none is known. */
  less_reserved: LessReserved | null;
  /** After an out-of-memory failure: another change, if it removes the main cause. */
  remedy: Remedy | null;
  /** Changes of the program that the leak or the failed request points to, the most useful first. */
  fixes: Array<Fix>;
  /** Growth of allocated bytes per step; null if there is none, or no steps are known. */
  growth_per_step_bytes: number | null;
  /** The peak with changes to the program, estimated with `--budget` or after an out-of-memory failure. */
  estimates?: ReportEstimates;
  leaks: Array<Leak>;
  /** Known problems of programs with a caching allocator, most bytes first. */
  findings: Array<AllocatorFinding>;
  /** Memory that is live while nothing uses it. Only in logs of phantom GPUs that have accesses. */
  idle?: ReportIdle;
  /** Tensors whose referrers the program named when it took the snapshot, largest first. With `--at`, those allocated after the event. Only in recordings with `referrers=True`. */
  referred_tensors?: Array<ReportReferredTensor>;
  fragmentation: Fragmentations;
  /** The host memory of the process, at its first device. Only in logs of `vramscope run` of a minute or more. */
  host_memory?: HostMemory;
  /** Buffers of collectives at the event of the holders, most bytes first. Absent if the recording has none. */
  collectives?: Array<ReportCollective>;
  /** The private pools at the end, most reserved bytes first. */
  private_pools: Array<PrivatePool>;
  /** The parts of a program with a KV cache. */
  serving?: ServingMemory;
  regions: Array<Region>;
  churn: Array<Churn>;
  quality: Quality;
};

/**
 * The driver's counts of the device's memory.
 */
export type ReportDeviceUse = {
  /** The last count at or before the event of the holders; null if there is none. */
  here: ReportMeasuredUse | null;
  /** The first count of the recording. */
  first: ReportMeasuredUse;
  /** The count with the most bytes in use. */
  highest: ReportMeasuredUse;
};

/**
 * The estimate of a change.
 */
export type ReportEstimate = {
  /** The name of the change, as in `vramscope fit --only`. */
  change: string;
  name: string;
  /** Distance to the budget, error and cost, in a clause. */
  text: string;
  peak_allocated_bytes: number;
  /** Negative if bytes are missing; null without a budget. */
  left_bytes: number | null;
  /** `fits`, `may_fit` or `does_not_fit`, with the error in mind; null without a budget. */
  verdict: string | null;
  error: ReportEstimateError;
  cost: string;
  assumption: string | null;
  lines: Array<string>;
  /** The command that runs the changed program. */
  verify: string;
  /** The checkpointed modules. */
  blocks: Array<ReportBlockCalls>;
};

/**
 * The errors of estimates of this change in measured programs, in percent of the peak of the changed program.
 */
export type ReportEstimateError = {
  /** Number of programs. */
  cases: number;
  mean_absolute_percent: number;
  lowest_percent: number;
  highest_percent: number;
  /** Estimates that were too low by more than 1 %. */
  too_low: number;
};

/**
 * The peak with changes to the program, computed from the recorded allocations.
 */
export type ReportEstimates = {
  /** The recorded peak of allocated bytes. A failed request counts. */
  recorded_peak_bytes: number;
  /** The bytes that the allocator may use; null without a budget. */
  available_bytes: number | null;
  /** Bytes of the device that the allocator cannot use; 0 if unknown. */
  overhead_bytes: number;
  /** The part of a step that a failed request cut off: `gradients` or `optimizer_states`; null if none. */
  unrecorded: string | null;
  /** The basis of the estimates and its limits, in sentences. */
  basis: Array<string>;
  /** First those that suffice, then from cheap to expensive. */
  changes: Array<ReportEstimate>;
  left_out: Array<ReportNoEstimate>;
};

/**
 * A line of code.
 */
export type ReportFrame = {
  filename: string;
  line: number;
  name: string;
};

/**
 * A function, and how often the program called it.
 */
export type ReportFunctionCalls = {
  function: string;
  calls: number;
};

/**
 * Allocations that are live while nothing uses them.
 */
export type ReportIdle = {
  /** Kernel launches, library calls and copies in the recording. */
  launches: number;
  /** The launches whose parameters are unknown; they may have used any memory. */
  unknown_launches: number;
  /** The peak of allocated bytes if every allocation lived from its first to its last use. */
  lower_bound_bytes: number;
  /** First those that need no extra work when mended, then those `between_uses`; each by the fall of the peak. */
  findings: Array<ReportIdleFinding>;
  /** Findings beyond those in `findings`, because of a limit on rows. */
  more_findings: number;
  /** Further findings, which hardly lower the peak, and their bytes. */
  left_out: number;
  left_out_bytes: number;
};

/**
 * One kind of idle memory at one line, in modules of one name.
 */
export type ReportIdleFinding = {
  /** `freed_late`, `not_freed`, `allocated_early`, `never_used` or `between_uses`. */
  kind: string;
  /** The frame of the user's code; null without a stack. */
  line: ReportFrame | null;
  /** Path of the modules that allocated, as `h.*.mlp` if their numbers differ; null if no module did. */
  module: string | null;
  /** The category of all these allocations; null if they differ. Allocations without a stack have one finding for each category. */
  category: string | null;
  /** The stack of the allocation with the longest interval, innermost frame first. */
  stack: Array<ReportFrame>;
  frames_left_out?: number;
  /** Number of allocations. */
  allocations: number;
  /** Whether each of them was used exactly once. */
  used_once: boolean;
  /** The most bytes of them that are idle after one event. */
  bytes: number;
  /** Bytes of them that are idle at the peak of allocated bytes. */
  bytes_at_peak: number;
  /** Idle bytes, summed over events. */
  byte_events: number;
  /** The peak of allocated bytes without these intervals. */
  remaining_peak_allocated_bytes: number;
  longest: ReportIdleInterval;
};

/**
 * The idle interval with the most byte-events.
 */
export type ReportIdleInterval = {
  /** Event right before the interval; null if it begins before the first event. */
  from_event: number | null;
  /** Last event of the interval; null if it ends before the first event. */
  to_event: number | null;
  /** Number of events in the interval. */
  events: number;
  /** Null if events have no times. */
  duration_us: number | null;
};

/**
 * What one library holds of one kind of memory, beside PyTorch's allocator.
 */
export type ReportLibrary = {
  /** File name of the library or program that called. */
  library: string;
  /** `device`, `async`, `physical`, `managed`, `graph` (kept by the driver for CUDA graphs), `graph_node` (an allocation of a graph, which shares that memory), `array`, `imported` (allocated by another process), `pinned` or `registered`. */
  memory: string;
  /** Bytes at the event of the holders. */
  bytes: number;
  count: number;
  peak_bytes: number;
  end_bytes: number;
  /** The line of the user's code in `stack`; null without one. */
  line: ReportFrame | null;
  /** Stack of the largest allocation, innermost frame first. */
  stack: Array<ReportFrame>;
};

/**
 * A count of the driver, and the memory that the recording has at that time.
 */
export type ReportMeasuredUse = {
  /** Microseconds since the Unix epoch. */
  time_us: number;
  /** Bytes in use, by all processes. */
  used_bytes: number;
  total_bytes: number;
  /** Bytes that PyTorch's allocator had reserved. */
  reserved_bytes: number;
  /** Bytes of all other libraries. */
  libraries_bytes: number;
  /** `used_bytes` without `reserved_bytes` and `libraries_bytes`: contexts, kernels and other processes. Negative if managed memory is not on the device. */
  rest_bytes: number;
};

/**
 * The counters after an event, and the holders of the allocated bytes there.
 */
export type ReportMoment = {
  /** The last event with `--at end`; null if the device has none. */
  event: number | null;
  requested_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  holders: Array<Holder>;
  categories: Array<CategoryBytes>;
};

/**
 * A change without an estimate.
 */
export type ReportNoEstimate = {
  change: string;
  name: string;
  reason: string;
};

/**
 * A tensor to which Python objects referred when the snapshot was taken.
 */
export type ReportReferredTensor = {
  /** The allocation; null if it is older than the recording. */
  event: number | null;
  /** Its free; null if it was not freed. */
  free_event: number | null;
  address: number;
  bytes: number;
  /** Name of a parameter, of its gradient or of an optimizer state, as `gradient of fc.weight`; null for other tensors. */
  name: string | null;
  /** Type of the values, as `float32`. */
  dtype: string;
  /** The shape, as `(1024, 768)`. */
  shape: string;
  /** Chains of references from a variable to the tensor, at most three. */
  referrers: Array<string>;
};

/**
 * A section of the report on a device, as plain text.
 */
export type ReportSection = {
  /** Its name, as in `leaks`. */
  name: string;
  /** Its first line. */
  title: string;
  /** The lines below the title, with their indentation. */
  lines: Array<string>;
};

/**
 * A number of requests and their bytes, rounded up to multiples of 512.
 */
export type ServedRequests = {
  requests: number;
  bytes: number;
};

/**
 * The memory of a program with a KV cache. All parts but the activations are those at the end, and add up to the allocated bytes there.
 */
export type ServingMemory = {
  /** The event after which the parts are counted: the last one, or, if the program frees its KV cache, the last one of the cache's peak; null before the first event. */
  event: number | null;
  weights_bytes: number;
  kv_cache_bytes: number;
  /** Other blocks in private pools, such as those of CUDA graphs. */
  graphs_bytes: number;
  other_bytes: number;
  /** The most bytes of other blocks that are freed by then. */
  activations_bytes: number;
  /** The event of that peak; null before the first event. */
  activations_event: number | null;
};

/**
 * One side of a difference.
 */
export type Side = {
  /** The event's action, or the block's state. */
  what: string;
  address: number;
  bytes: number;
};

/**
 * One step.
 */
export type Step = {
  /** Half-open range `first_event..end_event` of event indices. */
  first_event: number;
  /** One past the last event index. */
  end_event: number;
  peak_allocated_bytes: number;
  /** Event index of the peak; null before the first event. */
  peak_event: number | null;
  /** Bytes and number of all blocks allocated in the step. */
  allocated_bytes: number;
  allocations: number;
  /** Allocated bytes after the step minus those before. */
  kept_bytes: number;
  /** Whether most steps make the same allocations. */
  is_usual: boolean;
};

/**
 * The steps and their source.
 */
export type Steps = {
  /** `annotations`, `optimizer` or `rhythm`. */
  told_by: string;
  /** Index (from 0) of the first step, after the very first, whose allocations differ from those of most steps. */
  first_unusual: number | null;
  /** In order of time. */
  steps: Array<Step>;
};

/**
 * A tried setting and its result.
 */
export type Tried = {
  conf: string;
  /** Whether these are the recorded settings. */
  recorded: boolean;
  oom_event: number | null;
  /** Settings added to and removed from the recorded ones. */
  add: Array<string>;
  /** Items to remove from the recorded settings. */
  remove: Array<string>;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  peak_active_bytes: number;
  peak_reserved_bytes: number;
  end_reserved_bytes: number;
  /** Bytes reserved and not active at the peak of active bytes. */
  external_fragmentation_bytes: number;
  /** Whole segments; ranges mapped into expandable segments do not count, as in PyTorch. */
  segments_allocated: number;
  segments_freed: number;
  /** Segments and mapped ranges. */
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null if the device size is unknown. */
  fits: boolean | null;
  /** Number of requests that failed in the recording and succeed here. What the program would have done afterwards is unknown. */
  rescued_requests: number;
  /** The event at which the replay stopped, because the program would have failed there. */
  stopped_at_event: number | null;
};

/**
 * Failed requests without explanations.
 */
export type UnexplainedOoms = {
  first: FailedRequest;
  last: FailedRequest;
  largest: FailedRequest;
};

/**
 * Free blocks that could not serve a request, grouped by reason.
 */
export type Unusable = {
  why: Why;
  bytes: number;
  blocks: number;
  largest_bytes: number;
};

/**
 * Why a free block cannot serve a request.
 */
export type Why = "too_small" | "other_stream" | "other_size_class" | "other_pool" | "max_split_size";
