// Joins touching pieces of expandable segments before drawing: these are reserved in pieces, and a block may span several.

import { numberAt } from '../../../numbers/at';
import type { Layout } from '../../../source/source';

type SegmentColumns = Layout['segments'];

/** Whether a piece continues the previous one. */
function continues(s: SegmentColumns, piece: number, before: number): boolean {
  return (
    s.expandable[piece] === 1 &&
    s.expandable[before] === 1 &&
    s.tags[piece] === s.tags[before] &&
    s.kind[piece] === s.kind[before] &&
    numberAt(s.address, before) + numberAt(s.bytes, before) === s.address[piece]
  );
}

/** Returns the layout with touching pieces of expandable segments joined. Segments stay sorted by address. */
export function joinExpandable(layout: Layout): Layout {
  const s = layout.segments;
  const firsts: number[] = [];
  for (let i = 0; i < s.address.length; i++) if (i === 0 || !continues(s, i, i - 1)) firsts.push(i);
  if (firsts.length === s.address.length) return layout;
  const bytes = Float64Array.from(firsts, (first, n) => {
    const last = (firsts[n + 1] ?? s.address.length) - 1;
    return numberAt(s.address, last) + numberAt(s.bytes, last) - numberAt(s.address, first);
  });
  const segments: SegmentColumns = {
    address: Float64Array.from(firsts, (i) => numberAt(s.address, i)),
    bytes,
    tags: Uint32Array.from(firsts, (i) => numberAt(s.tags, i)),
    kind: Uint8Array.from(firsts, (i) => numberAt(s.kind, i)),
    expandable: Uint8Array.from(firsts, (i) => numberAt(s.expandable, i)),
    stack: Uint32Array.from(firsts, (i) => numberAt(s.stack, i)),
    from: Uint32Array.from(firsts, (i) => numberAt(s.from, i)),
  };
  return { ...layout, segments };
}
