// Groups of live memory, as table rows.

import { numberAt } from '../numbers/at';
import { NONE, type Holders } from '../source/source';

/**
 * A group. At a moment without allocations of the group, its bytes and blocks are 0 and its stack is NONE; the same holds for the earlier
 * moment if nothing is compared.
 */
export interface Group {
  key: string;
  label: string;
  /** Its hue (`Groups` in source/). */
  hue: number;
  /** Whether the search matches some of it. */
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

/** Returns the group that changed the most, growing or shrinking; without a comparison, the largest. */
export const mostChanged = <G extends Group>(groups: readonly G[]): G | undefined =>
  groups.reduce<G | undefined>((most, one) => (most && changeOf(most) >= changeOf(one) ? most : one), undefined);

const changeOf = ({ bytes, before }: Group) => Math.abs(bytes - before);
