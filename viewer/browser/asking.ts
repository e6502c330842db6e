// What a served recording answers, asked without the page.

import { http } from '../src/source/http';
import type { Allocation, Names, Source } from '../src/source/source';

/** A source that asks the server at `url`, until another is made: its questions are relative to the page. */
export function asking(url: string): Source {
  const plain = globalThis.fetch;
  globalThis.fetch = (path, init) => plain(new URL(String(path), url), init);
  return http();
}

/** Every allocation of a file's first device: one question each, few at a time, for the server bounds its connections. */
export async function allocations(source: Source, file = 0): Promise<Allocation[]> {
  const AT_A_TIME = 16;
  const { allocations: count } = (await source.recordings())[file]!.devices[0]!;
  const all: Allocation[] = [];
  while (all.length < count) {
    const some = Array.from({ length: Math.min(AT_A_TIME, count - all.length) }, (_, i) => all.length + i);
    all.push(...(await Promise.all(some.map((id) => source.allocation(file, 0, id)))));
  }
  return all;
}

/** A stack as the text of its frames. */
export function frames(names: Names, stack: number | null): string[] {
  if (stack === null || stack >= names.ends.length) return [];
  const own = names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
  return [...own].map((frame) => `${names.file[frame]}:${names.line[frame]} ${names.function[frame]}`);
}
