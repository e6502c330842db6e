// Answers about a served recording, requested without the page.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { decode } from '../src/source/columns';
import { Engine, initSync } from '../src/source/generated/vramscope_wasm';
import { askedOf, type Source } from '../src/source/questions';
import { server } from '../src/source/server';
import type { Allocation, Names } from '../src/source/source';

const plain = globalThis.fetch;

/** A source for the server at `url`, until another is created: its questions are relative to the page. */
export function asking(url: string): Source {
  globalThis.fetch = (path, init) => plain(new URL(String(path), url), init);
  return askedOf(server());
}

/** A file of the engine: its bytes, and the facts with which a page carries it. */
interface File {
  name: string;
  about?: string;
  bytes: Uint8Array;
}

/** A source for `files` that uses the page's engine without a worker. */
export const engineOf = (...files: string[]): Source => engine(files.map((name) => ({ name, bytes: readFileSync(name) })));

/** The same for the recordings in a self-contained page. */
export function engineOfPage(page: string): Source {
  const carried = readFileSync(page, 'utf8').match(/id="recordings">([^<]*)</)![1]!;
  const bytes = new Uint8Array(Buffer.from(carried, 'base64'));
  const { recordings } = decode<{ recordings: { name: string; about: unknown; bytes: Uint8Array }[] }>(bytes.buffer);
  return engine(recordings.map(({ name, about, bytes }) => ({ name, about: JSON.stringify(about), bytes })));
}

function engine(files: File[]): Source {
  const page = process.env.VRAMSCOPE_PAGE ?? join(import.meta.dirname, '../../crates/vramscope-viewer/page');
  initSync({ module: gunzipSync(readFileSync(join(page, 'engine.wasm.gz'))) });
  const engine = new Engine();
  for (const [number, { name, about, bytes }] of files.entries()) {
    let at = 0;
    const read = (into: Uint8Array) => {
      const next = bytes.subarray(at, at + into.length);
      into.set(next);
      at += next.length;
      return next.length;
    };
    engine.open(number, name, about, { read, progress: () => {} });
  }
  const nothing = () => Promise.reject(new Error('it has its files'));
  return askedOf({
    recordings: async () => files.map((_, number) => JSON.parse(new TextDecoder().decode(engine.overview(number)))),
    ask: async ({ file, device }, question) => engine.ask(file, device, JSON.stringify(question)).slice().buffer,
    tooLarge: nothing,
    open: nothing,
    operators: nothing,
    job: null,
    page: null,
    readSource: null,
    console: null,
    close: nothing,
  });
}

/** Returns every allocation of a file's first device, with few concurrent questions, because the server limits its connections. */
export async function allocations(source: Source, file = 0): Promise<Allocation[]> {
  const AT_A_TIME = 16;
  const { allocations: count } = (await source.recordings())[file]!.devices[0]!;
  const all: Allocation[] = [];
  while (all.length < count) {
    const some = Array.from({ length: Math.min(AT_A_TIME, count - all.length) }, (_, i) => all.length + i);
    all.push(...(await Promise.all(some.map((id) => source.ask(file, 0, { question: 'allocation', id })))));
  }
  return all;
}

/** Returns a stack as the text of its frames. */
export function frames(names: Names, stack: number | null): string[] {
  if (stack === null || stack >= names.ends.length) return [];
  const own = names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
  return [...own].map((frame) => `${names.file[frame]}:${names.line[frame]} ${names.function[frame]}`);
}
