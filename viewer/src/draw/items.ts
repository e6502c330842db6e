// Segments, blocks and reserved ranges in the form of items, which can be coloured and searched.

import { NONE, type Items } from '../source/source';

/** Blocks or ranges in the form of the items of a picture, numbered by their positions. */
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
