// Gives touching items of different groups distinguishable colors. The largest groups have distinct colors; the many others share the
// palette, and if two similar colors touch, one changes its lightness.

import { numberAt } from '../numbers/at';
import { NONE, type Picture } from '../source/source';
import { lifted, oklab, type Rgb } from '../style/colors';

/** The least distance in Oklab of distinguishable touching colors. */
export const TOLD_APART = 0.04;

/** Possible lightness changes, smallest first. */
const LIFTS = [0.07, -0.07, 0.12, -0.12, 0.17, -0.17] as const;

/** The order of items in a picture. */
export type Runs = Pick<Picture, 'start' | 'item' | 'end'>;

/** The least rows of a band; lower items look like lines. */
const BAND = 2;

/** Calls `touch` for each pair of vertically touching bands, once per pair in a run of adjacent columns. */
export function touching({ start, item, end }: Runs, items: number, touch: (below: number, above: number) => void): void {
  const last = new Uint32Array(items).fill(NONE);
  for (let c = 0; c + 1 < start.length; c += 1) {
    const to = start[c + 1]!;
    let below = NONE;
    let bottom = 0;
    for (let r = start[c]!; r < to; r += 1) {
      const top = end[r]!;
      const above = top - bottom >= BAND ? item[r]! : NONE;
      bottom = top;
      if (below !== NONE && above !== NONE && last[below] !== above) {
        last[below] = above;
        touch(below, above);
      }
      below = above;
    }
  }
}

/** Changes the colors of items that touch a similar color. `hues` are the items' groups. */
export function tellApart(runs: Runs, hues: Uint32Array, colors: Uint32Array): void {
  // Number the distinct colors; `values` has three Oklab values per color.
  const numbers = new Map<Rgb, number>();
  const values: number[] = [];
  const numberOf = (color: Rgb) => {
    let number = numbers.get(color);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(color, number);
      values.push(...oklab(color));
    }
    return number;
  };
  /** Returns the squared distance of two colors. */
  const apart = (a: number, b: number) => {
    const [x, y, z] = [
      values[3 * a]! - values[3 * b]!,
      values[3 * a + 1]! - values[3 * b + 1]!,
      values[3 * a + 2]! - values[3 * b + 2]!,
    ];
    return x * x + y * y + z * z;
  };
  const number = colors.map(numberOf);
  if (differ(number, hues, numbers.size, apart)) return;
  const beside = new Map<number, number[]>();
  touching(runs, hues.length, (below, above) => {
    if (hues[below] === hues[above] || apart(number[below]!, number[above]!) >= TOLD_APART ** 2) return;
    beside.set(below, []);
    beside.set(above, []);
  });
  if (beside.size === 0) return;
  touching(runs, hues.length, (below, above) => {
    if (hues[below] === hues[above]) return;
    beside.get(below)?.push(above);
    beside.get(above)?.push(below);
  });
  // Items with few neighbors first, so that those with many mostly keep their colors.
  for (const [item, others] of [...beside].sort(([a, x], [b, y]) => x.length - y.length || a - b)) {
    const neighbours = [...new Set(others.map((other) => numberAt(number, other)))];
    const room = (one: number) => neighbours.reduce((least, other) => Math.min(least, apart(one, other)), Infinity);
    if (room(numberAt(number, item)) >= TOLD_APART ** 2) continue;
    let best = { color: numberAt(colors, item), room: -1 };
    for (const lift of LIFTS) {
      const color = lifted(numberAt(colors, item), lift);
      const has = room(numberOf(color));
      if (has > best.room) best = { color, room: has };
      if (has >= TOLD_APART ** 2) break;
    }
    colors[item] = best.color;
    number[item] = numberOf(best.color);
  }
}

/** The most colors for which all pairs are compared. */
const FEW = 64;

/** Whether there are few colors, and those of different groups are all distinguishable. */
function differ(number: Uint32Array, hues: Uint32Array, colors: number, apart: (a: number, b: number) => number): boolean {
  if (colors > FEW) return false;
  const hueOf = new Array<number | undefined>(colors);
  for (let i = 0; i < number.length; i += 1) {
    const known = hueOf[number[i]!];
    if (known === undefined) hueOf[number[i]!] = hues[i];
    else if (known !== hues[i]) return false;
  }
  return hueOf.every((a, i) => hueOf.every((b, j) => a === b || apart(i, j) >= TOLD_APART ** 2));
}
