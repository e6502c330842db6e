// The parts of `report --json` that the overview shows; docs/json.md tells them all.

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
  device_free_bytes: number | null;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
  reserved_unused_bytes: number;
  usable_bytes: number;
  unusable: Unusable[];
  largest_free_block: FreeBlock | null;
  at_limit: boolean | null;
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
  peak_allocated_bytes: number;
  peak_above_start_bytes: number;
  net_bytes: number;
  total_us: number | null;
}

export interface Report {
  holders_at_peak: Holder[];
  ooms: Oom[];
  more_ooms: number;
  best_setting: { conf: string; peak_reserved_bytes: number; fits: boolean | null; exact: boolean } | null;
  leaks: Leak[];
  fragmentation: { at_peak: Fragmentation; at_end: Fragmentation } | null;
  regions: Region[];
  quality: { exact: boolean; reproduced: boolean | null };
}
