import { expect, test } from 'vitest';
import { changesOf, partsOf } from './marks';

test('modules are added up under their patterns', () => {
  const parts = partsOf('layer', ['h.0.mlp', 'h.1.mlp', 'h.1.attn', 'head', '(no layer)'], [10, 20, 5, 1, 99]);
  expect(parts.map(({ value }) => value)).toEqual(['layer:h', 'layer:h.*', 'layer:h.*.mlp', 'layer:h.*.attn', 'layer:head']);
  expect(parts[2]!.label).toBe('h.*.mlp, 30 B');
});

test('lines and categories have the names of changes', () => {
  expect(partsOf('line', ['a b/net.py:12 forward', 'net.py:3', 'unknown'], [2048, 1, 1]).map(({ value }) => value)).toEqual([
    'line:a b/net.py:12',
    'line:net.py:3',
  ]);
  expect(partsOf('category', ['optimizer state'], [1])[0]!.value).toBe('category:optimizer_state');
});

test('only changes that may have an effect are offered', () => {
  const of = (part: string) => changesOf('category', `category:${part}`).map(({ value }) => value);
  expect(of('activation')).toContain('checkpoint');
  expect(of('optimizer_state')[0]).toBe('offload');
  expect(of('parameter')).not.toContain('offload');
  expect(changesOf('batch', null).every(({ value }) => value.startsWith('x'))).toBe(true);
});
