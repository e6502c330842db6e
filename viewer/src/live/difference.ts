// What changed between two moments, of one recording or of two. Groups are matched by their text.

import { NONE } from '../source/source';
import type { Group } from './group';

/** A group (see group.ts) at two moments. Bytes and blocks are 0 where it is not there. */
export interface Change {
  key: string;
  label: string;
  before: number;
  after: number;
  /** `after` less `before`. */
  bytes: number;
  countBefore: number;
  countAfter: number;
  /** Numbers of stacks in the names of the first and of the second recording; NONE where the group is not there. */
  stackBefore: number;
  stackAfter: number;
  /** Whether the search finds some of it, at either moment. */
  found: boolean;
}

/** All groups that are there at either moment, what grew most first and what shrank most last. */
export function difference(before: readonly Group[], after: readonly Group[]): Change[] {
  const changes = new Map<string, Change>();
  for (const g of after) {
    changes.set(g.key, {
      key: g.key,
      label: g.label,
      before: 0,
      after: g.bytes,
      bytes: g.bytes,
      countBefore: 0,
      countAfter: g.count,
      stackBefore: NONE,
      stackAfter: g.stack,
      found: g.found,
    });
  }
  for (const g of before) {
    const c = changes.get(g.key);
    if (c) {
      c.before = g.bytes;
      c.bytes = c.after - g.bytes;
      c.countBefore = g.count;
      c.stackBefore = g.stack;
      c.found ||= g.found;
    } else {
      changes.set(g.key, {
        key: g.key,
        label: g.label,
        before: g.bytes,
        after: 0,
        bytes: -g.bytes,
        countBefore: g.count,
        countAfter: 0,
        stackBefore: g.stack,
        stackAfter: NONE,
        found: g.found,
      });
    }
  }
  return [...changes.values()].sort((a, b) => b.bytes - a.bytes || (a.key < b.key ? -1 : 1));
}
