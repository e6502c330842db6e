// Segments, blocks and reserved ranges: their names, and their form as items, which can be coloured and searched.

import { numberAt } from '../numbers/at';
import { NONE, SEGMENT_KINDS, type Items, type Segments, type Tags } from '../source/source';
import { poolName, streamName } from './group';

/** `large`, `large, expandable`. */
export const kindText = ({ kind, expandable }: Pick<Segments, 'kind' | 'expandable'>, i: number) =>
  `${SEGMENT_KINDS[numberAt(kind, i)]}${expandable[i] ? ', expandable' : ''}`;

/** `default pool, stream 3`. */
export const poolText = (tags: Tags | undefined) => `${poolName(tags?.pool ?? null)}, ${streamName(tags?.stream ?? 0)}`;

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
