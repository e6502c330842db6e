// The outline of an item, which moves up and down as items below it come and go.

import { numberAt } from '../numbers/at';

/** A straight line in pixel columns and rows: vertical if `left` equals `right`, else horizontal. */
export interface Edge {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** Returns the lines around an item with these rows (see `rowsOf` in hit.ts). */
export function edges(rows: Uint16Array): Edge[] {
  const width = rows.length / 2;
  const found: Edge[] = [];
  /** Bottom and top of the item in the previous column; equal if it is absent. */
  let [low, high] = [0, 0];
  const upright = (x: number, bottom: number, top: number) => {
    if (top > bottom) found.push({ left: x, right: x, bottom, top });
  };
  /** Adds the vertical lines at `x`, where the item is on only one side. */
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
    // No edge where the item continues beyond the picture.
    if (left > 0) uprights(left, bottom, top);
    if (top > bottom) {
      found.push({ left, right, bottom, top: bottom }, { left, right, bottom: top, top });
    }
    [low, high] = [bottom, top];
    left = right;
  }
  return found;
}
