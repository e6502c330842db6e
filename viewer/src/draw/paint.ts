// Paints pictures into pixels, run by run, because a path per allocation would be too slow. A pixel is a canvas number (`abgr`); 0 lets
// the background show.

import { NONE, type Picture } from '../source/source';

/** The colors of a picture's items, by position. */
export interface ItemPaints {
  fill: Uint32Array;
  /** The color of the topmost row, for items that are high enough. */
  edge: Uint32Array;
  /** 1 if the item is hatched in its edge color. */
  hatched: Uint8Array;
}

/** The least rows of an item with an edge; the edge would hide lower items. */
const EDGE_FROM = 3;
/** The distance between hatching lines, in pixels. */
const HATCH = 7;

export function paintStack(pixels: Uint32Array, picture: Picture, paints: ItemPaints): void {
  const { column, start, item, end } = picture;
  const { width, height } = picture.window;
  pixels.fill(0);
  for (let left = 0; left < width; ) {
    const c = column[left] ?? NONE;
    let right = left + 1;
    while (right < width && column[right] === c) right += 1;
    let row = 0;
    // Columns without a moment have no runs.
    const last = start[c + 1] ?? 0;
    for (let r = start[c] ?? 0; r < last; r += 1) {
      const bottom = row;
      const top = end[r] ?? 0;
      const i = item[r] ?? NONE;
      if (i === NONE) {
        row = top;
        continue;
      }
      const fill = paints.fill[i] ?? 0;
      const edge = paints.edge[i] ?? 0;
      const plain = top - bottom >= EDGE_FROM ? top - 1 : top;
      if (paints.hatched[i]) {
        for (; row < plain; row += 1) {
          const line = (height - 1 - row) * width;
          for (let x = left; x < right; x += 1) pixels[line + x] = (x + row) % HATCH === 0 ? edge : fill;
        }
      } else {
        for (; row < plain; row += 1) {
          const line = (height - 1 - row) * width;
          for (let x = left; x < right; x += 1) pixels[line + x] = fill;
        }
      }
      for (; row < top; row += 1) {
        const line = (height - 1 - row) * width;
        for (let x = left; x < right; x += 1) pixels[line + x] = edge;
      }
    }
    left = right;
  }
}

export interface Line {
  /** Bytes at each pixel column. */
  values: Float64Array;
  color: number;
  /** In pixels. */
  thickness: number;
  dashed: boolean;
  /** Whether steps are drawn without vertical lines between them; these would hide the stack where values jump a lot. */
  apart?: boolean;
}

/** The length of a dash plus its gap, in pixels. */
const DASH = 8;

/** Paints a step line. Values outside the picture are clipped, and NaN leaves a gap. */
export function paintLine(pixels: Uint32Array, picture: Picture, line: Line): void {
  const { width, height } = picture.window;
  const scale = height / (picture.high - picture.low);
  const rowOf = (value: number) => Math.round((value - picture.low) * scale);
  let before = rowOf(line.values[0] ?? NaN);
  for (let x = 0; x < width; x += 1) {
    const row = rowOf(line.values[x] ?? NaN);
    const from = line.apart ? row : before;
    before = row;
    const bottom = Math.max(Math.min(from, row), 0);
    const top = Math.min(Math.max(from, row) + line.thickness, height);
    if (line.dashed && x % DASH >= DASH / 2) continue;
    for (let y = bottom; y < top; y += 1) pixels[(height - 1 - y) * width + x] = line.color;
  }
}

/** Returns the values of a dashed line: NaN in the gaps. */
export const dashed = (values: Float64Array) => values.map((value, x) => (x % DASH < DASH / 2 ? value : NaN));

/** Returns the step line as SVG paths of (pixel column, value) points. NaN ends a path; with `apart`, each step does. */
export function steps(values: Float64Array, apart: boolean): (readonly [number, number])[][] {
  const paths: (readonly [number, number])[][] = [];
  let before = NaN;
  const level = (x: number) => {
    if (!Number.isNaN(before)) paths.at(-1)!.push([x, before]);
  };
  values.forEach((value, x) => {
    if (Object.is(value, before)) return;
    level(x);
    if (!Number.isNaN(value)) {
      if (apart || Number.isNaN(before)) paths.push([]);
      paths.at(-1)!.push([x, value]);
    }
    before = value;
  });
  level(values.length);
  return paths;
}
