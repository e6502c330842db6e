// Converts segments, blocks and reserved ranges to items, which can be colored and searched.

import { NONE, type Items } from '../source/source';

/** Converts blocks or ranges to picture items, numbered by position. */
export function itemsOf(of: Pick<Items, 'address' | 'bytes' | 'from' | 'stack' | 'tags'> & Partial<Items>): Items {
  const { address, bytes, from, stack, tags, purpose } = of;
  return {
    id: from.map((_, i) => i),
    address,
    bytes,
    size: bytes,
    from,
    to: new Uint32Array(from.length).fill(NONE),
    stack,
    tags,
    purpose: purpose ?? new Uint8Array(),
  };
}
