// Messages between the page and its workers.

import type { DeviceAt } from './engine';
import type { Question } from './generated/questions';

/** A trace of `torch.profiler` beside a file. */
export interface Operators {
  trace: File;
  /** Whether the page embeds it. */
  isOwn: boolean;
}

/** A file to read: dropped, or embedded in the page with facts about it as JSON. */
export interface Content {
  content: File;
  about?: string;
  operators?: Operators;
}

/** A request to a worker. The first one sends the engine. Files have the page's numbers; the warm-up file has none. */
export type Request =
  | { engine: ArrayBuffer }
  | { practise: File }
  | { open: number; file: Content }
  | { overview: number }
  | { ask: Question; about: DeviceAt }
  | { operators: number; of: Operators }
  | { close: number };

/** A worker's reply to each request except the first, in order. */
export type Reply =
  | { bytes: ArrayBuffer }
  /** `broken`: the engine cannot continue, and its memory is lost. */
  | { error: string; broken: boolean }
  /** Progress, not yet an answer: bytes of the file read so far. */
  | { read: number };
