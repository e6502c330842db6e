// The edges around an item, whose place in the stack changes as others beneath it come and go.

import { numberAt } from '../numbers/at';

/** A straight edge in pixel columns and rows: upright where `left` is `right`. */
export interface Edge {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** Of rows as `rowsOf` gives them. */
export function edges(rows: Uint16Array): Edge[] {
  const width = rows.length / 2;
  const found: Edge[] = [];
  /** Bottom and top of the columns to the left; equal: nothing there. */
  let [low, high] = [0, 0];
  const upright = (x: number, bottom: number, top: number) => {
    if (top > bottom) found.push({ left: x, right: x, bottom, top });
  };
  /** What one side has and the other has not. */
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
