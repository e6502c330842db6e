import { describe, expect, test } from 'vitest';
import { NONE, type Groups, type Items, type Names, type Purpose, type Steps, type Tags } from '../source/source';
import { SHADES } from '../style/colors';
import { categoryOf, colorKeysBy, stackTitle, type ColorKeys } from './color-keys';
import { shadesOf } from './shades';

const names: Names = {
  label: ['c10::alloc', 'nn/linear.py:9 forward', 'train.py:3 main'],
  file: ['', 'nn/linear.py', 'train.py'],
  line: [0, 9, 3],
  function: ['c10::alloc', 'forward', 'main'],
  code: ['native', 'library', 'user'],
  short_file: ['', 'nn/linear.py', 'train.py'],
  short_function: ['c10::alloc', 'forward', 'main'],
  library: ['c10::', 'nn', null],
  ends: Uint32Array.of(3, 4, 4),
  frames: Uint32Array.of(0, 1, 2, 2),
  own: Uint32Array.of(2, 2, 0xffffffff),
  generated: new Map(),
};
const tags: Tags[] = [0, 7, 0].map((stream) => ({
  stream,
  pool: null,
  layer: null,
  recorded_category: null,
  compile_context: null,
  user_metadata: null,
}));
const purposes: Purpose[] = (['activation', 'gradient', 'gradient'] as const).map((category, i) => ({
  category,
  because: `reason ${i}`,
}));
const tables = { tags, purposes, steps: null };
const items: Items = {
  id: Uint32Array.of(0, 1, 2),
  address: new Float64Array(3),
  bytes: Float64Array.of(500, 900, 2 ** 19),
  size: Float64Array.of(512, 1000, 2 ** 20),
  from: new Uint32Array(3),
  to: new Uint32Array(3),
  stack: Uint32Array.of(0, 0, 1),
  tags: Uint32Array.of(0, 1, 2),
  purpose: Uint8Array.of(1, 0, 2),
};

test('titles of stacks', () => {
  expect([0, 1, 2].map((stack) => stackTitle(names, stack))).toEqual([
    'nn/linear.py:9 forward ‹ train.py:3 main',
    'train.py:3 main',
    '(no stack)',
  ]);
});

const groups: Groups = {
  hue: Uint32Array.of(70, 50, 0),
  stack: Uint32Array.of(1, 0, NONE),
  no_stack: 2,
  tags: new Uint32Array(),
  frame: new Uint32Array(),
};
const known = (one: Partial<Groups>) => new Map([['0.0', { ...groups, ...one }]]);
const hues = (keys: ColorKeys, of = items) => [0, 1, 2].map((i) => keys.hueOf(of, i));

test('stacks and tags have the hues of their groups, unknown ones none', () => {
  expect(hues(colorKeysBy('line', tables, '0.0', known({}), false))).toEqual([50, 50, 70]);
  const none = { ...items, stack: Uint32Array.of(NONE, 0, 2) };
  expect(hues(colorKeysBy('line', tables, '0.0', known({}), false), none)).toEqual([0, 50, 0]);
  expect(hues(colorKeysBy('line', tables, '0.0', undefined, false))).toEqual([0, 0, 0]);
  const byTags = known({ tags: Uint32Array.of(0, 1, 0), stack: new Uint32Array() });
  expect(hues(colorKeysBy('stream', tables, '0.0', byTags, false))).toEqual([70, 50, 70]);
});

test('purposes of one category share a key; without purposes there is none', () => {
  const keys = colorKeysBy('category', tables, '0.0', undefined, false);
  expect(hues(keys).map(categoryOf)).toEqual(['gradient', 'activation', 'gradient']);
  expect(colorKeysBy('category', { ...tables, purposes: null }, '0.0', undefined, false).hueOf(items, 0)).toBe(0);
  expect(keys.hueOf({ ...items, purpose: new Uint8Array() }, 0)).toBe(0);
});

test('keys: powers of two for sizes, numbers for allocations, first moments for steps', () => {
  expect(hues(colorKeysBy('size', tables, '0.0', undefined, false))).toEqual([10, 10, 21]);
  expect(hues(colorKeysBy('allocation', tables, '0.0', undefined, false))).toEqual([1, 2, 3]);
  const steps = { from: Uint32Array.of(3, 8) } as Steps;
  const made = { ...items, from: Uint32Array.of(0, 4, 9) };
  expect(hues(colorKeysBy('step', { ...tables, steps }, '0.0', undefined, false), made)).toEqual([0, 1, 2]);
  // The moment at which a step begins belongs to the previous step.
  expect(
    hues(colorKeysBy('step', { ...tables, steps }, '0.0', undefined, false), { ...made, from: Uint32Array.of(3, 8, 9) }),
  ).toEqual([0, 1, 2]);
});

describe('the largest groups', () => {
  // All select the same shade.
  const alike = Array.from({ length: 12 }, (_, i) => 5 + i * SHADES);
  const of = (...hue: number[]) => ({ ...groups, hue: Uint32Array.from(hue) });
  const shade = (shades: ReadonlyMap<number, number>) => (hue: number) => shades.get(hue);

  test('have distinct shades, and the largest has the one that its name selects', () => {
    const shades = alike.map(shade(shadesOf([of(...alike)])));
    expect(new Set(shades).size).toBe(12);
    expect(shades[0]).toBe(5);
  });

  test('have one shade in all recordings, distinct within each', () => {
    const [a, b] = [of(...alike), of(...alike.toReversed(), 5 + 40 * SHADES)];
    const shades = shadesOf([a, b]);
    for (const one of [a, b]) expect(new Set([...one.hue].map(shade(shades))).size).toBe(one.hue.length);
    const both = new Map([
      ['0.0', a],
      ['1.0', b],
    ]);
    const colors = ['0.0', '1.0'].map((scope) => colorKeysBy('line', tables, scope, both, false).color);
    for (const hue of alike) expect(colors[0]!(hue)).toBe(colors[1]!(hue));
    expect(new Set(alike.map(colors[0]!)).size).toBe(12);
  });
});
