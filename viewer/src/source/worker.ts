// The engine in workers of the page: nothing leaves the machine, and nothing needs to be installed. One worker answers quick questions.
// A second worker answers slow questions. It reads the file again, so the page stays responsive, and an unwanted question ends with it.

import type { Engine } from './engine';
import { tooLarge } from './fits';
import type { Question } from './generated/questions';
import type { Note } from './generated/server';
import { documentWith } from './document';
import type { Content, Reply, Request } from './messages';

/** The parts of the engine: its WebAssembly code, and the address of its worker script. */
export interface Parts {
  code: ArrayBuffer;
  script: string;
}

export interface Carried {
  parts: Parts;
  files: Content[];
  notes: readonly Note[];
}

declare global {
  /** The contents of a self-contained page, set by its start-up script. */
  var carried: Carried | undefined;
}

/** Questions about the whole recording, as in `Question::pace` (crates/vramscope-session/src/questions/mod.rs). */
const isSlow = ({ question }: Question) => ['report', 'replay', 'comparison', 'marked'].includes(question);

/** Milliseconds after which an idle worker frees its memory, if another worker has the same files. */
const REST_MS = 5000;

const NOT_WANTED = () => new DOMException('The answer is no longer wanted.', 'AbortError');

interface Waiting {
  request: Request;
  /** Files that must be open. */
  needs: number[];
  read: (bytes: number) => void;
  unwanted: AbortSignal | undefined;
  done: (bytes: ArrayBuffer) => void;
  failed: (error: Error) => void;
}

/** One worker, started on the first request. It answers one request at a time, so canceled requests never start. */
class Thread {
  private worker: Worker | null = null;
  private readonly open = new Set<number>();
  private readonly waiting: Waiting[] = [];
  private underWay: { waiting: Waiting; opening: number | null } | null = null;
  private rest: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly parts: Parts,
    private readonly files: readonly (Content | null)[],
    private readonly isSpare: boolean,
  ) {}

  ask(request: Request, needs: number[], unwanted?: AbortSignal, read: (bytes: number) => void = () => {}): Promise<ArrayBuffer> {
    return new Promise((done, failed) => {
      const waiting = { request, needs, unwanted, read, done, failed };
      unwanted?.addEventListener('abort', () => this.forget(waiting), { once: true });
      this.waiting.push(waiting);
      this.next();
    });
  }

  /** Drops a file if this worker has it. */
  close(file: number): void {
    // If its worker has ended meanwhile, there is nothing to close.
    if (this.open.has(file)) this.ask({ close: file }, []).catch(() => {});
    this.open.delete(file);
  }

  private forget(waiting: Waiting): void {
    waiting.failed(NOT_WANTED());
    const at = this.waiting.indexOf(waiting);
    if (at >= 0) this.waiting.splice(at, 1);
    // A quick question soon ends by itself. A slow one ends with its worker; the next question reads the files again.
    else if (this.underWay?.waiting === waiting && (this.isSpare || this.underWay.opening !== null)) {
      this.end();
      this.next();
    }
  }

  /** Ends the worker and frees its memory. */
  private end(): void {
    this.worker?.terminate();
    this.worker = null;
    this.underWay = null;
    this.open.clear();
  }

  private next(): void {
    clearTimeout(this.rest);
    if (this.underWay) return;
    const waiting = this.waiting.shift();
    if (!waiting) {
      if (this.isSpare && this.worker) this.rest = setTimeout(() => this.end(), REST_MS);
      return;
    }
    const opening = waiting.needs.find((file) => !this.open.has(file)) ?? null;
    const file = opening === null ? null : this.files[opening];
    if (opening !== null && !file) {
      waiting.failed(new Error(`file ${opening} is not open: it was closed`));
      return this.next();
    }
    this.underWay = { waiting, opening };
    this.begun().postMessage(opening !== null && file ? { open: opening, file: this.needed(file) } : waiting.request);
  }

  /** The parts of a file that this worker's questions need: slow ones do not need the operators. */
  private needed({ operators, ...file }: Content): Content {
    return operators && !this.isSpare ? { ...file, operators } : file;
  }

  private begun(): Worker {
    if (this.worker) return this.worker;
    const worker = new Worker(this.parts.script);
    // A worker of a page in a frame may have an opaque origin and cannot receive compiled code. The browser compiles equal code only once.
    worker.postMessage({ engine: this.parts.code } satisfies Request);
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.answered(data);
    worker.onerror = ({ message }) => this.answered({ error: message, broken: true });
    this.worker = worker;
    return worker;
  }

  private answered(reply: Reply): void {
    if (!this.underWay) return;
    const { waiting, opening } = this.underWay;
    if ('read' in reply) return waiting.read(reply.read);
    this.underWay = null;
    if ('error' in reply) {
      if (reply.broken) this.end();
      waiting.failed(new Error(reply.broken ? broken(reply.error) : reply.error));
    } else if (opening !== null) {
      this.open.add(opening);
      // Its question comes next.
      if (!waiting.unwanted?.aborted) this.waiting.unshift(waiting);
    } else waiting.done(reply.bytes);
    this.next();
  }
}

const broken = (error: string) =>
  `The engine had to stop: a recording may need more than the 4 GiB that a page can use. The command has no such limit: vramscope view FILE. (${error})`;

interface InWorkers extends Engine {
  /** Reads a small file and forgets it. Browsers optimize code that has run, so the next file is read a fifth faster. */
  practise(file: File): void;
}

/** Creates the engine in workers, with the files of the page. */
export function workers(parts: Parts, carried: readonly Content[] | null = null): InWorkers {
  const files: (Content | null)[] = [...(carried ?? [])];
  const quick = new Thread(parts, files, false);
  const slow = new Thread(parts, files, true);
  return {
    practise: (file) => void quick.ask({ practise: file }, []).catch(() => {}),
    recordings: async (read) => {
      const overview = async (file: Content | null, at: number): Promise<unknown> => {
        if (!file) return null;
        const { name, size: total } = file.content;
        const told = (bytes: number) => read?.({ name, bytes, total });
        return JSON.parse(new TextDecoder().decode(await quick.ask({ overview: at }, [at], undefined, told)));
      };
      return Promise.all(files.map(overview));
    },
    ask: (about, question, unwanted) => {
      const needs = 'other_file' in question ? [about.file, question.other_file] : [about.file];
      return (isSlow(question) ? slow : quick).ask({ ask: question, about }, needs, unwanted);
    },
    tooLarge,
    job: null,
    readSource: null,
    console: null,
    page:
      carried &&
      (async (_open, notesOn) => {
        const dropped = [...carried.keys()].flatMap((file) => {
          const of = files[file]?.operators;
          return of && !of.isOwn ? [{ file, trace: of.trace }] : [];
        });
        return documentWith(notesOn([...carried.keys()]), dropped);
      }),
    open: async (file, read, unwanted) => {
      const at = files.push({ content: file }) - 1;
      try {
        await quick.ask({ overview: at }, [at], unwanted, read);
      } catch (e) {
        files[at] = null;
        throw e;
      }
      return at;
    },
    operators: async (at, trace, read, unwanted) => {
      const of = { trace, isOwn: false };
      await quick.ask({ operators: at, of }, [at], unwanted, read);
      const file = files[at];
      // A new worker reads it again.
      if (file) file.operators = of;
    },
    close: async (at) => {
      files[at] = null;
      quick.close(at);
      slow.close(at);
    },
  };
}
