// A picture into pixels: rows and runs, never a path an allocation. Pixels are as a canvas keeps them, one number each;
// 0 lets the ground show.

import { NONE, type Picture } from '../source/source';

/** Colours of a picture's items, by position. */
export interface Paints {
  fill: Uint32Array;
  /** Of the topmost row of an item that is tall enough to have one. */
  edge: Uint32Array;
  /** 1: hatched with the edge's colour. */
  hatched: Uint8Array;
}

/** Items lower than this have no edge: it would hide them. */
const EDGE_FROM = 3;
const HATCH = 7;

export function paintStack(pixels: Uint32Array, picture: Picture, paints: Paints): void {
  const { column, start, item, end } = picture;
  const { width, height } = picture.window;
  pixels.fill(0);
  for (let left = 0; left < width; ) {
    const c = column[left] ?? NONE;
    let right = left + 1;
    while (right < width && column[right] === c) right += 1;
    let row = 0;
    // Columns that show no moment have no runs.
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
  /** One value a pixel. */
  values: Float64Array;
  color: number;
  /** Pixels. */
  thickness: number;
  dashed: boolean;
  /** Whether steps stay apart: joined, values that jump at every pixel would hide what is behind. */
  apart?: boolean;
}

/** Pixels of a dash and the gap after it. */
const DASH = 8;

/** A stepped line through the values; what lies outside of the picture is cut off, and NaN leaves a gap. */
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

/** NaN where the gaps are. */
export const dashed = (values: Float64Array) => values.map((value, x) => (x % DASH < DASH / 2 ? value : NaN));

/** A stepped line as paths of pixel and value: NaN ends one, and so does every step of lines that stay apart. */
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
