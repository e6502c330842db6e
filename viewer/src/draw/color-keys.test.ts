import { expect, test } from 'vitest';
import { CATEGORIES, NONE, type Items, type Names, type Purpose, type Tags } from '../source/source';
import { colorKeysBy, largest, stackTitle } from './color-keys';

const names: Names = {
  label: ['c10::alloc', 'nn/linear.py:9 forward', 'train.py:3 main'],
  file: ['', 'nn/linear.py', 'train.py'],
  line: [0, 9, 3],
  function: ['c10::alloc', 'forward', 'main'],
  code: ['native', 'library', 'user'],
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
const tables = { tags, purposes };
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

test('tags that read the same are one key', () => {
  const keys = colorKeysBy('stream', names, tables, false);
  expect([0, 1, 2].map((i) => keys.label(keys.keyOf(items, i)))).toEqual(['default stream', 'stream 0x7', 'default stream']);
});

test('purposes of one category are one key, and without purposes there is none', () => {
  const keys = colorKeysBy('category', names, tables, false);
  const found = [0, 1, 2].map((i) => keys.keyOf(items, i));
  expect(found).toEqual(['gradient', 'activation', 'gradient'].map((name) => CATEGORIES.indexOf(name as 'gradient')));
  expect(found.map(keys.label)).toEqual(['gradient', 'activation', 'gradient']);
  expect(colorKeysBy('category', names, { tags, purposes: null }, false).keyOf(items, 0)).toBe(NONE);
  expect(keys.keyOf({ ...items, purpose: new Uint8Array() }, 0)).toBe(NONE);
});

test('sizes by powers of two', () => {
  const keys = colorKeysBy('size', names, tables, false);
  expect([0, 1, 2].map((i) => keys.label(keys.keyOf(items, i)))).toEqual(['512 B to 1 KiB', '512 B to 1 KiB', '1 MiB to 2 MiB']);
});

test('the largest groups come first', () => {
  const keys = colorKeysBy('stack', names, tables, false);
  expect(largest(keys, items, Float64Array.of(10, 20, 70), 5)).toEqual([
    { key: 1, share: 0.7 },
    { key: 0, share: 0.3 },
  ]);
  expect(largest(keys, items, Float64Array.of(10, 20, 0), 5)).toEqual([{ key: 0, share: 1 }]);
});
