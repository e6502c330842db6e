// A picture's runs as rectangles, for drawings that are no pixels.

import { NONE, type Picture } from '../source/source';

export interface Rectangle {
  item: number;
  left: number;
  right: number;
  bottom: number;
  top: number;
}

/** Runs of the same item at the same rows, as long as they last. Pixels, rows from the bottom. */
export function rectangles(picture: Picture): Rectangle[] {
  const { column, start, item, end, window } = picture;
  const found: Rectangle[] = [];
  let open = new Map<number, Rectangle>();
  for (let left = 0; left < window.width; ) {
    const c = column[left];
    let right = left + 1;
    while (right < window.width && column[right] === c) right += 1;
    const next = new Map<number, Rectangle>();
    let bottom = 0;
    for (let r = start[c]; r < start[c + 1]; r += 1) {
      const top = end[r];
      if (item[r] !== NONE) {
        let rectangle = open.get(item[r]);
        if (rectangle?.bottom !== bottom || rectangle.top !== top) {
          rectangle = { item: item[r], left, right, bottom, top };
          found.push(rectangle);
        }
        rectangle.right = right;
        next.set(item[r], rectangle);
      }
      bottom = top;
    }
    open = next;
    left = right;
  }
  return found;
}
