// What the page and its workers tell each other.

import type { DeviceAt } from './engine';
import type { Question } from './generated/view';

/** A file to read: one that was dropped, or one that the page carries, with what is told of it, as JSON. */
export interface Content {
  content: File;
  about?: string;
}

/** What a worker is asked to do. It is told its engine first, and numbers files as the page does; one to practise on has no number. */
export type Request =
  | { engine: ArrayBuffer }
  | { practise: File }
  | { open: number; file: Content }
  | { overview: number }
  | { ask: Question; about: DeviceAt }
  | { close: number };

/** What a worker answers: to each request but the first, in order. */
export type Reply =
  | { bytes: ArrayBuffer }
  /** `broken`: the engine cannot go on, and its memory is lost. */
  | { error: string; broken: boolean }
  /** Not an answer yet: so many bytes of the file were read. */
  | { read: number };
