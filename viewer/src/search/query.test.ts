import { describe, expect, test } from 'vitest';
import { NONE, type Names, type Query, type Steps, type Tags } from '../source/source';
import { parse } from './language';
import { compile, findsCategory } from './query';

const names: Names = {
  label: ['attention.py:4 forward', 'train.py:9 main', 'c10::alloc'],
  file: ['/home/me/model/attention.py', '/home/me/train.py', 'libc10.so'],
  line: [4, 9, 0],
  function: ['forward', 'main', 'c10::alloc'],
  code: ['user', 'user', 'native'],
  ends: Uint32Array.of(2, 3, 3, 5),
  frames: Uint32Array.of(0, 1, 1, 2, 1),
  own: Uint32Array.of(0, 1, NONE, 1),
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
const spans = {
  from: Uint32Array.of(10, 20, 30),
  to: Uint32Array.of(20, 30, 30),
  from_us: new Float64Array(),
  to_us: new Float64Array(),
};
const steps = spans as unknown as Steps;
const regions = { names: ['forward', 'Backward pass'], name: Uint32Array.of(0, 1, 0), row: Uint8Array.of(0, 0, 0), ...spans };
const known = { names, tags, purposes, steps, regions };
const query = (text: string) => compile(parse(text), known);
const stacks = (...of: number[]): Query => ({ is: 'stacks', stacks: of });
const tagged = (...of: number[]): Query => ({ is: 'tags', tags: of });

describe('queries', () => {
  test.each<[string, Query | null]>([
    ['  ', null],
    ['FORWARD', stacks(0)],
    ['me/train', stacks(0, 1, 3)],
    ['train c10', stacks(3)],
    ['forward OR c10', stacks(0, 3)],
    ['train >1 c10', { is: 'all', of: [{ is: 'size', min: 2, max: null }, stacks(3)] }],
    ['"py:9 main"', stacks(0, 1, 3)],
    ['/^train.*main$/', stacks()],
    ['/train\\.py:\\d+ main/', stacks(0, 1, 3)],
    ['file:attention', stacks(0)],
    ['function:attention', stacks()],
    ['line:main', stacks(1, 3)],
    ['NOT line:main', { is: 'not', of: stacks(1, 3) }],
    ['stream:3', tagged(1)],
    ['stream:0x3', tagged(1)],
    ['stream:"stream 0x3"', tagged(1)],
    ['stream:default', tagged(0, 2, 3)],
    ['pool:default', tagged(0, 1)],
    ['pool:"default pool"', tagged(0, 1)],
    ['pool:1.0', tagged(2)],
    ['pool:"private pool 1.0"', tagged(2)],
    ['pool:"private pool (1, 0)"', tagged(2)],
    ['pool:private', tagged(2)],
    ['pool:none', tagged(3)],
    ['layer:attn', tagged(1)],
    ['-stream:3', { is: 'not', of: tagged(1) }],
    ['category:grad', { is: 'purposes', purposes: [0, 2] }],
    ['category:"optimizer state"', { is: 'purposes', purposes: [1] }],
    ['0x7f10', { is: 'address', address: 0x7f10, version: null }],
    ['>=1KiB', { is: 'size', min: 1024, max: null }],
    // A step has the moments from its first up to that of the next; people count from 1.
    ['step:2', { is: 'allocated', spans: [[20, 29]] }],
    ['step:>=2', { is: 'allocated', spans: [[20, 29]] }],
    // A region begins at the last moment before anything happened in it.
    ['region:backward', { is: 'allocated', spans: [[21, 30]] }],
    ['region:forward', { is: 'allocated', spans: [[11, 20]] }],
    // The moment after event n is n + 1.
    ['allocated:>1200', { is: 'allocated', spans: [[1202, NONE - 1]] }],
    ['allocated:7', { is: 'allocated', spans: [[8, 8]] }],
    ['allocated:before', { is: 'allocated', spans: [[0, 0]] }],
    ['freed:<7', { is: 'freed', spans: [[1, 7]] }],
    ['freed:<0', { is: 'freed', spans: [] }],
    ['freed:never', { is: 'freed', spans: [[NONE, NONE]] }],
  ])('%s', (text, asked) => {
    expect(query(text)).toEqual(asked);
  });

  test('nothing is found by what is not known', () => {
    const without = { ...known, purposes: null, steps: null, regions: null };
    expect(compile(parse('category:gradient'), without)).toEqual({ is: 'purposes', purposes: [] });
    expect(compile(parse('step:1 OR region:forward'), without)).toEqual({
      is: 'any',
      of: [
        { is: 'allocated', spans: [] },
        { is: 'allocated', spans: [] },
      ],
    });
  });
});

test.each<[string, boolean]>([
  ['', true],
  ['forward', true],
  ['category:gradient', true],
  ['-category:gradient', false],
  ['category:unknown', false],
  ['category:unknown OR forward', true],
  ['category:unknown forward', false],
  ['-(category:gradient OR forward)', false],
  ['-(category:gradient forward)', true],
])('%s may find gradients: %s', (text, may) => {
  expect(findsCategory(parse(text), 'gradient')).toBe(may);
});
