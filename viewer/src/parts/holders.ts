// Groups of what is live, as rows of a table.

import { numberAt } from '../numbers/at';
import { NONE, type Holders } from '../source/source';

/** A group. Bytes and blocks are 0, and the stack is NONE, at a moment at which nothing is in it, and before where nothing is compared. */
export interface Group {
  key: string;
  label: string;
  /** By what it is coloured (`Groups` in source/). */
  hue: number;
  /** Whether the search finds some of it. */
  found: boolean;
  bytes: number;
  requested: number;
  count: number;
  /** The stack that holds most of it. */
  stack: number;
  before: number;
  countBefore: number;
  stackBefore: number;
}

export function groupsOf({ key, label, hue, found, now, before }: Holders): Group[] {
  return key.map((one, i) => ({
    key: one,
    label: label[i] ?? '',
    hue: numberAt(hue, i),
    found: found[i] === 1,
    bytes: numberAt(now.bytes, i),
    requested: numberAt(now.requested, i),
    count: numberAt(now.count, i),
    stack: numberAt(now.stack, i),
    before: before ? numberAt(before.bytes, i) : 0,
    countBefore: before ? numberAt(before.count, i) : 0,
    stackBefore: before ? numberAt(before.stack, i) : NONE,
  }));
}
