// The engine in a worker: it reads files as streams and answers one question at a time.

import { Engine, initSync } from './generated/vramscope_wasm';
import type { Content, Operators, Reply, Request } from './messages';

/** The worker's global scope; the page's types do not include workers. */
interface Scope {
  onmessage: ((event: MessageEvent<Request>) => void) | null;
  postMessage(reply: Reply, transfer?: Transferable[]): void;
}

/** Reads a file synchronously in a worker; the page's types do not include it. */
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}

const page = self as unknown as Scope;
let engine: Engine;

/** Bytes per read: each read costs about a millisecond, and more than 4 MiB is not faster. */
const SLICE = 4 << 20;

/** Returns a function that reads a file from beginning to end. */
function stream(file: File) {
  const reader = new FileReaderSync();
  let fetched = 0;
  let ahead = new Uint8Array();
  return {
    read(into: Uint8Array): number {
      if (ahead.length === 0) {
        ahead = new Uint8Array(reader.readAsArrayBuffer(file.slice(fetched, fetched + SLICE)));
        fetched += ahead.length;
      }
      const part = ahead.subarray(0, into.length);
      into.set(part);
      ahead = ahead.subarray(part.length);
      return part.length;
    },
    progress(read: number): void {
      page.postMessage({ read });
    },
  };
}

const addOperators = (number: number, { trace, isOwn }: Operators) => engine.operators(number, trace.name, isOwn, stream(trace));

function open(number: number, { content, about, operators }: Content): void {
  engine.open(number, content.name, about, stream(content));
  if (operators) addOperators(number, operators);
}

/** The file number reserved for the warm-up file. */
const PRACTICE = 0xffff_ffff;

/** Answers a request; the answer is empty if there is nothing to return. */
function answer(request: Request): Uint8Array {
  if ('open' in request) open(request.open, request.file);
  else if ('overview' in request) return engine.overview(request.overview);
  else if ('ask' in request) return engine.ask(request.about.file, request.about.device, JSON.stringify(request.ask));
  else if ('operators' in request) addOperators(request.operators, request.of);
  else if ('close' in request) engine.close(request.close);
  else if ('practise' in request) {
    open(PRACTICE, { content: request.practise });
    engine.close(PRACTICE);
  }
  return new Uint8Array();
}

page.onmessage = ({ data: request }) => {
  if ('engine' in request) {
    initSync({ module: request.engine });
    engine = new Engine();
    return;
  }
  try {
    const bytes = answer(request).buffer as ArrayBuffer;
    page.postMessage({ bytes }, [bytes]);
  } catch (e) {
    // A stack overflow is a RangeError, and also leaves the engine in an undefined state.
    const broken = e instanceof WebAssembly.RuntimeError || e instanceof RangeError;
    page.postMessage({ error: e instanceof Error ? e.message : String(e), broken });
  }
};
