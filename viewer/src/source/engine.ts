// Who answers questions: the local server (server.ts), or the same engine in a worker of the page (worker.ts).

import type { Note, Question } from './generated/view';

/** A device by the positions of its file and its own. */
export interface DeviceAt {
  file: number;
  device: number;
}

/** All ranks of a job. */
export interface Job {
  /** What is told of them, in bytes. */
  ranks(): Promise<ArrayBuffer>;
  /** Reads the recording of the rank at a position, which is that of its file, where it is not open: what `recordings` tells of it. */
  read(rank: number): Promise<unknown>;
}

/** An answer in bytes (columns.ts), for each question of `Question`. A question whose signal says that nobody waits fails. */
export interface Engine {
  /** What is open, as JSON; resolves when every file is read. */
  recordings(): Promise<unknown>;
  ask(about: DeviceAt, question: Question, unwanted?: AbortSignal): Promise<ArrayBuffer>;
  /** Why a file may be more than can be read; null where nothing is known against it. */
  tooLarge(file: File): Promise<string | null>;
  /** Reads a file from the disk and gives its position; `read` is told the bytes of it that were read so far. */
  open(file: File, read: (bytes: number) => void, unwanted?: AbortSignal): Promise<number>;
  /**
   * Makes a self-contained page of the open files, whose positions are given, or of those that this page carries; `notesOn` gives the
   * notes for files whose positions in that page are their places in a list. Null where no page can be made.
   */
  page: ((open: readonly number[], notesOn: (files: readonly number[]) => readonly Note[]) => Promise<Blob>) | null;
  /** All ranks of a job, and their recordings, which are read when they are asked for; null where the page is of none. */
  job: Job | null;
  /** Closes a file, so that its memory is free. */
  close(file: number): Promise<void>;
}
