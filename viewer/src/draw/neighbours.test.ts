import { expect, test } from 'vitest';
import { NONE } from '../source/source';
import { SHADES, groupColor, mix, oklab } from '../style/colors';
import { TOLD_APART, tellApart, touching } from './neighbours';

/** Returns pseudorandom numbers, the same each time. */
function numbers(seed: number): (below: number) => number {
  let n = seed;
  return (below) => Math.floor(((n = (n * 1664525 + 1013904223) >>> 0) / 2 ** 32) * below);
}

const distance = (a: number, b: number) => Math.hypot(...oklab(a).map((x, i) => x - oklab(b)[i]!));

/** Returns a picture in which items begin and end from column to column, like allocations. */
function picture(seed: number, groups: number, columns = 120) {
  const random = numbers(seed);
  const hues: number[] = [];
  const [start, item, end]: [number[], number[], number[]] = [[0], [], []];
  let live: number[] = [];
  for (let c = 0; c < columns; c += 1) {
    live = live.filter((_, i) => i < 4 || random(6) > 0);
    for (let more = random(8); more > 0; more -= 1) live.push(hues.push(1 + random(groups)) - 1);
    item.push(...live.map((one) => (random(40) === 0 ? NONE : one)));
    for (let row = 0; end.length < item.length; ) end.push((row += 2 + random(9)));
    start.push(item.length);
  }
  return {
    hues: Uint32Array.from(hues),
    start: Uint32Array.from(start),
    item: Uint32Array.from(item),
    end: Uint16Array.from(end),
  };
}

test.for([
  [1, 30, false],
  [2, 200, false],
  [3, 2000, true],
  [4, 60, true],
  [5, 12, false],
] as const)('no two that touch look alike: picture %i of %i groups, dark: %s', ([seed, groups, dark]) => {
  const { hues, ...runs } = picture(seed, groups);
  // The largest groups have palette colors; the others vary.
  const color = (hue: number) => groupColor(Math.imul(hue, 0x9e3779b1) >>> 0, hue >= SHADES, dark);
  const plain = hues.map((hue, i) => (i & 1 ? mix(color(hue), 0xffffff, 0.1) : color(hue)));
  const told = plain.slice();
  tellApart(runs, hues, told);
  const nearest = (colors: Uint32Array) => {
    let least = Infinity;
    touching(runs, hues.length, (a, b) => {
      if (hues[a] !== hues[b]) least = Math.min(least, distance(colors[a]!, colors[b]!));
    });
    return least;
  };
  // Before the change, the picture has similar neighbors.
  if (groups > SHADES) expect(nearest(plain)).toBeLessThan(TOLD_APART);
  expect(nearest(told)).toBeGreaterThanOrEqual(TOLD_APART);
  // Few colors change.
  expect(told.filter((one, i) => one !== plain[i]).length).toBeLessThan(told.length / 2);
});

test('an item without similar neighbors keeps its color', () => {
  const colors = Uint32Array.of(0xff0000, 0x00ff00, 0xff0000);
  const column = (...item: number[]) => ({
    start: Uint32Array.of(0, item.length),
    item: Uint32Array.from(item),
    end: Uint16Array.from(item, (_, i) => 3 * (i + 1)),
  });
  tellApart(column(0, 1, 2), Uint32Array.of(1, 2, 3), colors);
  expect([...colors]).toEqual([0xff0000, 0x00ff00, 0xff0000]);
  // Neighbors of one group may look alike.
  tellApart(column(0, 2), Uint32Array.of(1, 2, 1), colors);
  expect([...colors]).toEqual([0xff0000, 0x00ff00, 0xff0000]);
});
