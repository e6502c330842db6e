// Converts a picture's runs to rectangles, for SVG.

import { numberAt } from '../numbers/at';
import { NONE, type Picture } from '../source/source';

export interface Rectangle {
  item: number;
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** Joins runs of one item at equal rows in adjacent columns. Columns are pixels from the left, rows count from the bottom. */
export function rectangles(picture: Picture): Rectangle[] {
  const { column, start, item, end, window } = picture;
  const found: Rectangle[] = [];
  let open = new Map<number, Rectangle>();
  for (let left = 0; left < window.width; ) {
    const c = column[left] ?? NONE;
    let right = left + 1;
    while (right < window.width && column[right] === c) right += 1;
    const next = new Map<number, Rectangle>();
    let bottom = 0;
    // Columns without a moment have no runs.
    const last = start[c + 1] ?? 0;
    for (let r = start[c] ?? 0; r < last; r += 1) {
      const [of, top] = [numberAt(item, r), numberAt(end, r)];
      if (of !== NONE) {
        let rectangle = open.get(of);
        if (rectangle?.bottom !== bottom || rectangle.top !== top) {
          rectangle = { item: of, left, right, bottom, top };
          found.push(rectangle);
        }
        rectangle.right = right;
        next.set(of, rectangle);
      }
      bottom = top;
    }
    open = next;
    left = right;
  }
  return found;
}
