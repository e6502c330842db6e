// The engine that answers questions: the local server (server.ts), or the same engine in a worker of the page (worker.ts).

import type { Question } from './generated/questions';
import type { Note, Source, SourceQuery, SqlAnswer, SqlTables } from './generated/server';

/** A device by its file's position and its own position. */
export interface DeviceAt {
  file: number;
  device: number;
}

/** The file that is being read: its name, the bytes read so far, and all its bytes if they are known. */
export interface Progress {
  name: string;
  bytes: number;
  total: number | null;
}

export interface Job {
  /** Returns the summary of all ranks, in bytes. */
  ranks(): Promise<ArrayBuffer>;
  /** Reads the recording of a rank, by its position (the same as its file's), if it is not open; returns its entry of `recordings`. */
  read(rank: number): Promise<unknown>;
}

/** The SQL console of a served page. */
export interface Console {
  tables(): Promise<SqlTables>;
  answer(sql: string, unwanted?: AbortSignal): Promise<SqlAnswer>;
}

/** Answers a `Question` in bytes (columns.ts). A question fails when its signal is aborted. */
export interface Engine {
  /** Returns the open files as JSON, once every file is read. Meanwhile, `read` is called with the progress. */
  recordings(read?: (progress: Progress) => void): Promise<unknown>;
  ask(about: DeviceAt, question: Question, unwanted?: AbortSignal): Promise<ArrayBuffer>;
  /** Returns why a file may be too large to read, or null. */
  tooLarge(file: File): Promise<string | null>;
  /** Reads a file from the disk and returns its position; `read` is called with the number of bytes read so far. */
  open(file: File, read: (bytes: number) => void, unwanted?: AbortSignal): Promise<number>;
  /** Shows the operators of a trace of `torch.profiler` beside an open file. Fails if the trace is not of the recorded run. */
  operators(file: number, trace: File, read: (bytes: number) => void, unwanted?: AbortSignal): Promise<void>;
  /**
   * Makes a self-contained page of the open files at these positions, or of the files embedded in this page. `notesOn` returns the notes
   * for
   * a list of files; in the new page, a file's position is its index in that list. Null if no page can be made.
   */
  page: ((open: readonly number[], notesOn: (files: readonly number[]) => readonly Note[]) => Promise<Blob>) | null;
  /** Reads the source file of a frame from the folders of `--source`; null for a page without a server. */
  readSource: ((file: number, query: SourceQuery, unwanted?: AbortSignal) => Promise<Source>) | null;
  /** Answers SQL queries; null for a page without a server. */
  console: Console | null;
  /** All ranks of a job, with recordings that are read on demand; null if the page does not show a job. */
  job: Job | null;
  /** Closes a file and frees its memory. */
  close(file: number): Promise<void>;
}
