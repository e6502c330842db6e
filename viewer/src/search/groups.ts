// The words of the search box that find what a group holds.

import { entryAt } from '../numbers/at';
import { NONE, type By, type Names } from '../source/source';

/** A word; quotes hold it together. */
const word = (text: string) => `"${text.replaceAll('"', '')}"`;

/** What finds the allocations of a group by the key that its answer gives it, and its stack; null where no word does. */
export function searchOf(by: By, { key, stack }: { key: string; stack: number }, names: Names): string | null {
  // Behind the first space stands what the group shares; before it, how it is known.
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
