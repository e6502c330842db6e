// Written by the tests of crates/vramscope-session from the structs in src/requests: `INSTA_UPDATE=always cargo test -p
// vramscope-session`.

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
