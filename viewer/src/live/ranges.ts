// Segments, blocks and reserved ranges: what they are called, and what they are to colours and searches.

import { numberAt } from '../numbers/at';
import { NONE, SEGMENT_KINDS, type Items, type Segments, type Tags } from '../source/source';
import { poolName, streamName } from './group';

/** `large`, `large, expandable`. */
export const kindText = ({ kind, expandable }: Pick<Segments, 'kind' | 'expandable'>, i: number) =>
  `${SEGMENT_KINDS[numberAt(kind, i)]}${expandable[i] ? ', expandable' : ''}`;

/** `default pool, stream 3`. */
export const poolText = (tags: Tags | undefined) => `${poolName(tags?.pool ?? null)}, ${streamName(tags?.stream ?? 0)}`;

/** Blocks or ranges as the items of a picture; their numbers are their positions. */
export function itemsOf(of: Pick<Items, 'address' | 'bytes' | 'from' | 'stack' | 'tags'>): Items {
  const { address, bytes, from, stack, tags } = of;
  return {
    id: from.map((_, i) => i),
    address,
    bytes,
    size: bytes,
    from,
    to: new Uint32Array(from.length).fill(NONE),
    stack,
    tags,
  };
}
