// The blocks of a layout by allocation.

import { stackTitle } from '../../draw/color-keys';
import { numberAt } from '../../numbers/at';
import { NONE, type Layout, type Names } from '../../source/source';
import { bytes } from '../../text/units';

/** Names the block of an allocation: its line and its bytes. */
export type BlockTitles = (allocation: number) => string;

export function blockTitles({ blocks }: Layout, names: Names | null): BlockTitles {
  const at = new Map<number, number>();
  blocks.allocation.forEach((allocation, b) => at.set(allocation, b));
  return (allocation) => {
    const b = at.get(allocation);
    if (allocation === NONE || b === undefined) return 'the edge of the segment';
    return `${names ? stackTitle(names, numberAt(blocks.stack, b)) : 'a block'}, ${bytes(numberAt(blocks.bytes, b))}`;
  };
}
