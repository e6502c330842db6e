// Written by the tests of crates/vramscope-viewer from the structs in src/protocol/ranks.rs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.

import type { F64s } from './view';

/**
 * All ranks of a job, as `vramscope fleet` tells of them. Ranks are named by their positions among `ranks`, which are also those of
 * their files.
 */
export type Ranks = {
  /** What was looked at, as it was given. */
  paths: Array<string>;
  /** Where the ranks were found, as what follows "ranks by". */
  ranks_by: string;
  /** What was left out or could not be kept, a line each. */
  notes: Array<string>;
  /** How many of the ranks could be read. */
  read: number;
  /** What is told first, in sentences. */
  told: Array<string>;
  /** They say that all is well. */
  is_well: boolean;
  /** The upper end of the scale of bytes: the memory of the card where it is known, else the highest peak. */
  scale_bytes: number;
  /** What that is, in words. */
  scale: string;
  /** Ranks that behave alike, the largest kind first. */
  kinds: Array<KindOfRanks>;
  /** The names of the parallel groups that ranks are in. */
  groups: Array<string>;
  /** Every rank, in order. */
  ranks: Array<RankTold>;
  /** The ranks that are worth a look. */
  different: Array<DifferentRank>;
  /** The highest allocated bytes in equal parts of each recording, from its first event to its last: those of the first rank, then of the next. Ranks that could not be read have zeros. */
  allocated: F64s;
  /** The same of reserved bytes. */
  reserved: F64s;
  /** How many parts there are of each recording. */
  cells: number;
};

/**
 * Ranks that behave alike.
 */
export type KindOfRanks = {
  /** How many ranks there are. */
  ranks: number;
  /** Many ranks are of it; what is not usual is worth a look. */
  is_usual: boolean;
  /** The allocated bytes at the peak of the rank in its middle. */
  peak_bytes: number;
};

/**
 * A rank.
 */
export type RankTold = {
  /** Its number in the job. */
  rank: number;
  /** The machine that it ran on. */
  host: string | null;
  /** Its number in each parallel group. */
  groups: {
    [key in string]: number
  };
  /** The file. */
  file: string;
  /** Why the file could not be read, in words. */
  unread_because: string | null;
  /** Its position among `kinds`. */
  kind: number | null;
  /** The highest allocated bytes. */
  allocated_bytes: number | null;
  /** By how much that is above the usual kind that its own is least unlike, in bytes; negative below it. */
  against_usual_bytes: number | null;
  /** The highest reserved bytes. */
  reserved_bytes: number | null;
  /** It ran out of memory: what was asked for, in bytes. */
  failed_bytes: number | null;
  /** The part of the recording in which it did, where that is known. */
  failed_cell: number | null;
  /** The line that leaks most. */
  leak: string | null;
};

/**
 * A rank that is worth a look.
 */
export type DifferentRank = {
  /** Its position among the ranks. */
  at: number;
  /** The position of a usual rank to see it beside. */
  beside: number | null;
  /** Why, in a sentence each. */
  reasons: Array<string>;
};
