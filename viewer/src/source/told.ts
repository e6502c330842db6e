// The parts of `report --json` and `replay --json` that the page shows; docs/json.md tells them all. A test holds these types
// to what the command writes (browser/told.test.ts).

export interface ReportFrame {
  filename: string;
  line: number;
  name: string;
}

export interface Holder {
  bytes: number;
  requested_bytes: number;
  count: number;
  key: string;
  preexisting: boolean | null;
  stack: ReportFrame[];
  freed_at?: ReportFrame[];
}

export interface Unusable {
  why: string;
  bytes: number;
  blocks: number;
  largest_bytes: number;
}

interface FreeBlock {
  address: number;
  bytes: number;
  stream: number;
  kind: string;
}

export interface Oom {
  event: number;
  requested_bytes: number;
  stream: number;
  device_free_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Unusable[];
  largest_free_block: FreeBlock | null;
  at_limit: boolean;
  enough_in_total: boolean;
  missing_bytes: number;
  holders: Holder[];
}

export interface Leak {
  line: ReportFrame;
  stacks: number;
  floor: number[];
  allocations: number;
  kept: number;
  kept_bytes: number;
}

export interface Fragmentation {
  internal_bytes: number;
  external_bytes: number;
  whole_segments_bytes: number;
  free_blocks: number;
  largest_free_block: FreeBlock | null;
  request_bytes: number;
  usable_bytes: number;
  unusable: Unusable[];
}

export interface Region {
  name: string;
  count: number;
  first: RegionRun;
  /** Of each figure the one in the middle of all runs. */
  typical: RegionRun;
  /** Of each figure the largest of any run. */
  largest: RegionRun;
}

/** One run of a region. */
export interface RegionRun {
  peak_allocated_bytes: number;
  peak_above_start_bytes: number;
  net_bytes: number;
  us: number;
}

/** One device of `report --json`. */
export interface ReportDevice {
  holders_at_peak: Holder[];
  ooms: Oom[];
  more_ooms: number;
  best_setting: { conf: string; peak_reserved_bytes: number; fits: boolean; exact: boolean } | null;
  leaks: Leak[];
  /** Null where nothing was allocated then. */
  fragmentation: { at_peak: Fragmentation | null; at_end: Fragmentation | null };
  regions: Region[];
  quality: { exact: boolean; reproduced: boolean | null };
}

/** The recording under one setting. */
export interface Tried {
  conf: string;
  recorded: boolean;
  peak_reserved_bytes: number;
  external_fragmentation_bytes: number;
  device_allocs: number;
  device_frees: number;
  num_alloc_retries: number;
  /** Null where the size of the device is not known. */
  fits: boolean | null;
  oom_event: number | null;
}

/** One device of `replay --json`, with what the page draws. */
export interface ReplayDevice {
  events: number;
  /** The release whose rules were followed; null: of another allocator. */
  torch: string | null;
  capacity_bytes: number | null;
  reproduces_recording: boolean | null;
  compared_end: boolean;
  approximate_because: string[];
  what_if: Tried[];
  what_if_approximate_because: string[];
  floors: { active_bytes: number; packed_bytes: number; packed_is_optimal: boolean };
  /** Reserved bytes of each row of `what_if`: [moment, bytes] at each change. */
  lines: [number, number][][];
}
