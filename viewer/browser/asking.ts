// What a served recording answers, asked without the page.

import { http } from '../src/source/http';
import type { Allocation, Names, Source } from '../src/source/source';

/** A source that asks the server at `url`: its questions are relative to the page. */
export function asking(url: string): Source {
  const plain = globalThis.fetch;
  globalThis.fetch = (path, init) => plain(new URL(String(path), url), init);
  return http();
}

/** Every allocation of a file's first device, one question each. */
export async function allocations(source: Source, file = 0): Promise<Allocation[]> {
  const { allocations: count } = (await source.recordings())[file]!.devices[0]!;
  return Promise.all(Array.from({ length: count }, (_, id) => source.allocation(file, 0, id)));
}

/** A stack as the text of its frames. */
export function frames(names: Names, stack: number | null): string[] {
  if (stack === null || stack >= names.ends.length) return [];
  const own = names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
  return [...own].map((frame) => `${names.file[frame]}:${names.line[frame]} ${names.function[frame]}`);
}
