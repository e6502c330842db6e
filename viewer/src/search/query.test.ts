import { describe, expect, test } from 'vitest';
import type { Items, Names, Tags } from '../source/source';
import { compile, matching, parse, parseSize } from './query';

const names: Names = {
  label: ['attention.py:4 forward', 'train.py:9 main', 'c10::alloc'],
  file: ['/home/me/model/attention.py', '/home/me/train.py', 'libc10.so'],
  line: [4, 9, 0],
  function: ['forward', 'main', 'c10::alloc'],
  code: ['user', 'user', 'native'],
  ends: Uint32Array.of(2, 3, 3, 5),
  frames: Uint32Array.of(0, 1, 1, 2, 1),
  own: Uint32Array.of(0, 1, 0xffffffff, 1),
  generated: new Map(),
};
const tag = (over: Partial<Tags>): Tags => ({
  stream: 0,
  pool: [0, 0],
  layer: null,
  recorded_category: null,
  compile_context: null,
  user_metadata: null,
  ...over,
});
const tags = [tag({}), tag({ stream: 3, layer: 'h.0.Attn' }), tag({ pool: [1, 0] }), tag({ pool: null })];
const purposes = (['gradient', 'optimizer_state', 'gradient', 'unknown'] as const).map((category) => ({
  category,
  because: 'it is so',
}));
const query = (text: string) => compile(parse(text), names, { tags, purposes });

describe('parseSize', () => {
  test.each([
    ['10MiB', 10 * 2 ** 20],
    ['1.5 KiB', 1536],
    ['512mb', 512e6],
    ['7', 7],
    ['2g', 2 ** 31],
  ])('%s', (t, n) => {
    expect(parseSize(t)).toBe(n);
  });
  test.each(['', 'x', '1.2.3', '5 parsecs'])('%s is none', (t) => expect(parseSize(t)).toBeNull());
});

describe('queries', () => {
  test('nothing', () => expect(query('  ')).toBeNull());
  test('any frame, without case', () => expect(query('FORWARD')?.stacks).toEqual([0]));
  test('whole path', () => expect(query('me/train')?.stacks).toEqual([0, 1, 3]));
  test('both words must hold', () => expect(query('train c10')?.stacks).toEqual([3]));
  test('quoted', () => expect(query('"py:9 main"')?.stacks).toEqual([0, 1, 3]));
  test('C++ names are no fields', () => expect(query('c10::alloc')?.stacks).toEqual([3]));
  test('file and function', () => {
    expect(query('file:attention')?.stacks).toEqual([0]);
    expect(query('function:attention')?.stacks).toEqual([]);
  });
  test('sizes', () => {
    expect(query('>=10MiB <1GiB')).toMatchObject({ min: 10 * 2 ** 20, max: 2 ** 30 - 1, stacks: null });
    expect(query('>= 2 KiB')).toMatchObject({ min: 2048, stacks: null });
    expect(query('>=10MiB<1GiB')).toMatchObject({ min: 10 * 2 ** 20, max: 2 ** 30 - 1, stacks: null });
    expect(query('>=1024 attention')).toMatchObject({ min: 1024, stacks: [0] });
    expect(query('>=1024 <2048 main')).toMatchObject({ min: 1024, max: 2047, stacks: [0, 1, 3] });
  });
  test('address', () => expect(query('0x7f10')).toMatchObject({ address: 0x7f10, version: null }));
  test.each([
    ['b7f064c000000_0', 0],
    ["b'7f064c000000_12'", 12],
    ['B7F064C000000_3', 3],
    ['7f064c000000_1', 1],
    ['0x7f064c000000_2', 2],
    ['s7f064c000000_5', null],
    ["s'7f064c000000_5'", null],
  ])('%s is an address of memory_viz', (text, version) => {
    expect(query(text)).toMatchObject({ address: 0x7f064c000000, version, stacks: null });
  });
  test.each(['beef_1', 'b_0', 'bf16_2', 's1_0', 'bdeadbeef', 'forward_7f064c000000_0'])('%s is a name', (text) => {
    expect(parse(text).terms).toEqual([{ kind: 'frame', field: 'any', text }]);
  });
  test('names of Python are no sizes', () => {
    for (const name of ['<module>', '<lambda>'])
      expect(parse(name)).toEqual({ terms: [{ kind: 'frame', field: 'any', text: name }], unclear: [] });
  });
  test.each(['constructor:x', 'toString:1', '__proto__:2'])('%s is text', (text) => {
    expect(parse(text).terms).toEqual([{ kind: 'frame', field: 'any', text: text.toLowerCase() }]);
  });
  test('tags', () => {
    expect(query('stream:3')?.tags).toEqual([1]);
    expect(query('stream:0x3')?.tags).toEqual([1]);
    expect(query('pool:default')?.tags).toEqual([0, 1]);
    expect(query('pool:1.0')?.tags).toEqual([2]);
    expect(query('pool:none')?.tags).toEqual([3]);
    expect(query('layer:attn')?.tags).toEqual([1]);
    expect(query('-stream:3')?.tags).toEqual([0, 2, 3]);
    expect(query('stream:0 pool:1.0')?.tags).toEqual([2]);
  });
  test('categories', () => {
    expect(query('category:grad')).toMatchObject({ purposes: [0, 2], tags: null, stacks: null });
    expect(query('category:"optimizer state"')?.purposes).toEqual([1]);
    expect(query('-category:gradient')?.purposes).toEqual([1, 3]);
    expect(query('-category:gradient -category:unknown forward')).toMatchObject({ purposes: [1], stacks: [0] });
    expect(query('category:gradient category:unknown')?.purposes).toEqual([]);
    expect(compile(parse('category:gradient'), names, { tags, purposes: null })?.purposes).toEqual([]);
  });
  test('a minus before anything else is text', () => {
    expect(parse('-file:x').terms).toEqual([{ kind: 'frame', field: 'any', text: '-file:x' }]);
  });
  test.each([
    '>=much',
    '>',
    '>= much',
    '>=5parsecs',
    '>=1constructor',
    '0xzz',
    '0x10 0x20',
    '0x10_1',
    'b7f064c000000_0 b7f064c000000_1',
    'stream:x',
    'pool:7',
    'file:',
  ])('%s is unclear', (text) => {
    expect(parse(text).unclear).toHaveLength(1);
  });
});

test('items', () => {
  const items: Items = {
    id: Uint32Array.of(1, 2, 3),
    address: Float64Array.of(0x1000, 0x2000, 0x3000),
    bytes: Float64Array.of(500, 2000, 4000),
    size: Float64Array.of(512, 2048, 4096),
    from: Uint32Array.of(0, 0, 0),
    to: Uint32Array.of(1, 1, 1),
    stack: Uint32Array.of(0, 1, 2),
    tags: Uint32Array.of(0, 1, 2),
    purpose: Uint8Array.of(0, 1, 2),
  };
  const flags = (text: string) => [...matching(query(text)!, items, { id: Uint32Array.of(2) })];
  expect(flags('forward')).toEqual([1, 0, 0]);
  expect(flags('category:gradient')).toEqual([1, 0, 1]);
  expect(flags('>=2KiB')).toEqual([0, 1, 1]);
  expect(flags('0x27ff')).toEqual([0, 1, 0]);
  expect(flags('0x2800')).toEqual([0, 0, 0]);
  expect(flags('b00002000_0')).toEqual([0, 1, 0]);
  expect(flags('b00001000_0')).toEqual([0, 0, 0]);
  expect(flags('train >1KiB')).toEqual([0, 1, 0]);
  // What is stacked plays no part in it.
  expect(flags('>=512 <2049')).toEqual([1, 1, 0]);
});
