// Search terms that find a group's allocations.

import { entryAt } from '../numbers/at';
import { NONE, type By, type Names } from '../source/source';

/** A word in quotes. */
const word = (text: string) => `"${text.replaceAll('"', '')}"`;

/** Returns the search for a group's allocations, from the group's key in the answer and its stack; null if there is none. */
export function searchOf(by: By, { key, stack }: { key: string; stack: number }, names: Names): string | null {
  // After the first space is the group's common value; before it, its source.
  const of = key.slice(key.indexOf(' ') + 1);
  switch (by) {
    case 'category':
      return `category:${of}`;
    case 'stream':
      return `stream:${of}`;
    case 'pool':
      return `pool:${of === '' ? 'none' : of}`;
    case 'layer':
      return of.length > 1 ? `layer:${word(of.slice(1))}` : null;
    case 'step':
      return of === '' ? null : `step:${Number(of) + 1}`;
  }
  const frame = stack === NONE ? NONE : (names.own[stack] ?? NONE);
  if (frame === NONE) return null;
  if (by === 'function') return `function:${word(entryAt(names.function, frame))}`;
  if (by === 'file' || by === 'module') return `file:${word(entryAt(names.file, frame))}`;
  return `line:${word(entryAt(names.label, frame))}`;
}
