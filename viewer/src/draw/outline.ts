// The outline of an item: it moves up and down in the stack as others below it come and go.

import { numberAt } from '../numbers/at';

/** A straight line, in pixel columns and rows: upright where `left` equals `right`, else level. */
export interface Edge {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** The lines around an item whose rows are these (see `rowsOf` in hit.ts). */
export function edges(rows: Uint16Array): Edge[] {
  const width = rows.length / 2;
  const found: Edge[] = [];
  /** Bottom and top of the item in the columns to the left; equal where it is not there. */
  let [low, high] = [0, 0];
  const upright = (x: number, bottom: number, top: number) => {
    if (top > bottom) found.push({ left: x, right: x, bottom, top });
  };
  /** The upright lines at `x`: where the item is on one side and not on the other. */
  const uprights = (x: number, bottom: number, top: number) => {
    if (high === low || top === bottom || bottom >= high || top <= low) {
      upright(x, low, high);
      upright(x, bottom, top);
    } else {
      upright(x, Math.min(low, bottom), Math.max(low, bottom));
      upright(x, Math.min(high, top), Math.max(high, top));
    }
  };
  for (let left = 0; left < width; ) {
    const [bottom, top] = [numberAt(rows, 2 * left), numberAt(rows, 2 * left + 1)];
    let right = left + 1;
    while (right < width && rows[2 * right] === bottom && rows[2 * right + 1] === top) right += 1;
    // An item that goes on beyond the picture has no edge there.
    if (left > 0) uprights(left, bottom, top);
    if (top > bottom) {
      found.push({ left, right, bottom, top: bottom }, { left, right, bottom: top, top });
    }
    [low, high] = [bottom, top];
    left = right;
  }
  return found;
}
