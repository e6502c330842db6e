// Written by the tests of crates/vramscope-viewer from the structs in src/protocol/ranks.rs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.

import type { F64s } from './view';

/**
 * All ranks of a job, with the results of `vramscope fleet`. Ranks are identified by their positions in `ranks`, which are
 * also the positions of their files.
 */
export type Ranks = {
  /** The paths as given on the command line. */
  paths: Array<string>;
  /** The source of the rank numbers, as a phrase after "ranks by". */
  ranks_by: string;
  /** Skipped files and cache problems, one line each. */
  notes: Array<string>;
  /** The number of ranks that could be read. */
  read: number;
  /** The summary, in sentences. */
  told: Array<string>;
  /** Whether the summary reports no problem. */
  is_well: boolean;
  /** The upper end of the byte scale: the GPU's memory if known, otherwise the largest peak. */
  scale_bytes: number;
  /** The description of that value. */
  scale: string;
  /** Kinds of similar ranks, largest kind first. */
  kinds: Array<KindOfRanks>;
  /** The names of the parallel groups of the ranks. */
  groups: Array<string>;
  /** Every rank, in order. */
  ranks: Array<RankTold>;
  /** Ranks that deserve a closer look. */
  different: Array<DifferentRank>;
  /** The maximum of allocated bytes in equal parts of each recording, from its first event to its last: for the first rank, then for the next. Zeros for ranks that could not be read. */
  allocated: F64s;
  /** The same for reserved bytes. */
  reserved: F64s;
  /** The number of parts per recording. */
  cells: number;
};

/**
 * A kind of similar ranks.
 */
export type KindOfRanks = {
  /** The number of ranks. */
  ranks: number;
  /** Whether the kind has many ranks. Other kinds deserve a closer look. */
  is_usual: boolean;
  /** The median of the ranks' peaks of allocated bytes. */
  peak_bytes: number;
};

/**
 * A rank.
 */
export type RankTold = {
  /** The rank number in the job. */
  rank: number;
  /** The host of the rank. */
  host: string | null;
  /** Its number in each parallel group. */
  groups: {
    [key in string]: number
  };
  /** The file. */
  file: string;
  /** Why the file could not be read. */
  unread_because: string | null;
  /** Its position in `kinds`. */
  kind: number | null;
  /** The peak of allocated bytes. */
  allocated_bytes: number | null;
  /** The difference to the most similar usual kind's peak, in bytes; negative if below it. */
  against_usual_bytes: number | null;
  /** The peak of reserved bytes. */
  reserved_bytes: number | null;
  /** The requested bytes, if the rank ran out of memory. */
  failed_bytes: number | null;
  /** The part of the recording in which it ran out of memory, if known. */
  failed_cell: number | null;
  /** The line that leaks most. */
  leak: string | null;
};

/**
 * A rank that deserves a closer look.
 */
export type DifferentRank = {
  /** Its position in `ranks`. */
  at: number;
  /** The position of a usual rank for comparison. */
  beside: number | null;
  /** The reasons, one sentence each. */
  reasons: Array<string>;
};
