// Written by the tests of crates/vramscope-viewer from its structs: `INSTA_UPDATE=always cargo test -p vramscope-viewer`.

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
 * A note on an interval between two moments of a device. If both moments are the same, it is a note on the moment.
 */
export type Note = {
  /** The position of the file on its page. */
  file: number;
  /** The position of the device in the file. */
  device: number;
  /** The first moment. */
  from: number;
  /** The last moment. */
  to: number;
  /** The text, on one line. */
  text: string;
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
  /** The upper ends of the scales of bytes. */
  scales: Scales;
  /** Kinds of similar ranks, largest kind first. */
  kinds: Array<KindOfRanks>;
  /** The names of the parallel groups of the ranks. */
  groups: Array<string>;
  /** Every rank, in order. */
  ranks: Array<RankTold>;
  /** Ranks that deserve a closer look. */
  different: Array<DifferentRank>;
  /** The maximum of allocated bytes in equal parts of each recording, from its first event to its last: for the first rank, then for the next. Zeros for ranks that could not be read. */
  allocated: Float64Array;
  /** The same for reserved bytes. */
  reserved: Float64Array;
  /** The number of parts per recording. */
  cells: number;
};

/**
 * The upper end of a scale of bytes: the GPU's memory if known and of use, otherwise the largest peak.
 */
export type Scale = {
  bytes: number;
  /** The description of that value. */
  told: string;
};

/**
 * The upper end of the scale of each kind of bytes.
 */
export type Scales = {
  allocated: Scale;
  reserved: Scale;
};

/**
 * The source file of a frame, from the folders of `--source`.
 */
export type Source = {
  /** The folders as the user named them; empty without `--source`. */
  folders: Array<string>;
  /** The files that share most of the end of the recorded path, equally well. */
  files: Array<SourceFile>;
  /** The position of the read file in `files`; null if none or several match. */
  taken: number | null;
  /** Its text; null if it was not read. */
  text: string | null;
  /** Why it was not read. */
  why: string | null;
};

/**
 * A file that matches a recorded path.
 */
export type SourceFile = {
  path: string;
  /** The number of equal components at the end of both paths, and that of the recorded path. */
  equal: number;
  recorded: number;
};

/**
 * Requests the text of a frame's source file.
 */
export type SourceQuery = {
  frame: number;
  /** The chosen file, if several match equally well: a position in `Source.files`. */
  choice: number | null;
};

/**
 * The result of a query, or the reason why there is none.
 */
export type SqlAnswer = {
  /** The columns, each with a value for each row. */
  columns: Array<SqlColumn>;
  /** Whether rows were left out. */
  is_cut: boolean;
  /** The recordings that the query could read. */
  files: Array<SqlFile>;
  /** Notes, one line each. */
  notes: Array<string>;
  /** Why the query failed; null if it did not. */
  error: SqlError | null;
};

/**
 * A column of a result.
 */
export type SqlColumn = {
  /** Its name; several columns of a join may have the same. */
  name: string;
  /** Whether its values are numbers. Whole numbers beyond 2^53, and numbers that JSON does not have, are texts. */
  is_number: boolean;
  /** The values by row. */
  values: (number | string | null)[];
};

/**
 * Why a query failed.
 */
export type SqlError = {
  /** The reason in one line. */
  text: string;
  /** The line and the column of the wrong word, from 1; null if they are not known. */
  at: [number, number] | null;
};

/**
 * A recording that a query could read.
 */
export type SqlFile = {
  /** Its value in the column `rank`. */
  rank: number;
  /** Its value in the column `file`. */
  name: string;
  /** Its position in the page. */
  position: number;
};

/**
 * A query of the SQL console.
 */
export type SqlQuery = {
  sql: string;
};

/**
 * A table of the SQL console.
 */
export type SqlTable = {
  /** Its name. */
  name: string;
  /** The names of its columns. */
  columns: Array<string>;
};

/**
 * The tables of the SQL console.
 */
export type SqlTables = {
  /** Why no query can be answered; null if queries can be answered. */
  missing: string | null;
  tables: Array<SqlTable>;
};
