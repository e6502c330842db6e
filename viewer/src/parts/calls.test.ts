import { expect, test } from 'vitest';
import { NONE, type Calls, type Names } from '../source/source';
import { callTree, follow, pathTo, selfOf, stepsTo, type Node } from './calls';

const names: Pick<Names, 'label'> = { label: ['train.py:10 main', 'operator()', 'operator()'] };

/** main called two functions with one label; then memory without a stack, and memory live before recording without a stack. */
const calls: Calls = {
  parent: Uint32Array.of(NONE, 0, 0, NONE, NONE, 4),
  frame: Uint32Array.of(0, 1, 2, NONE, NONE, NONE),
  word: Uint32Array.of(0, 0, 0, 0, 1, 0),
  words: ['(no stack)', '(live before recording)'],
  first_group: 1,
  bytes: Float64Array.of(100, 60, 30, 7, 5, 5),
  count: Uint32Array.of(4, 1, 2, 1, 1, 1),
  bytes_before: Float64Array.of(0, 0, 0, 9, 0, 0),
  count_before: Uint32Array.of(0, 0, 0, 3, 0, 0),
  found: Float64Array.of(60, 60, 0, 0, 0, 0),
  weight: Float64Array.of(100, 60, 30, 9, 5, 5),
};
const root = callTree(calls, names as Names);

test('the root has the sums of the outermost calls', () => {
  expect([root.bytes, root.count, root.before, root.countBefore, root.found, root.weight]).toEqual([112, 6, 9, 3, 60, 114]);
  expect(root.children.map((c) => [c.label, c.bytes])).toEqual([
    ['train.py:10 main', 100],
    ['(no stack)', 7],
    ['(live before recording)', 5],
  ]);
});

test('nodes that share a label are distinct', () => {
  const walk = (node: Node): Node[] => [node, ...node.children.flatMap(walk)];
  expect(walk(root)).toHaveLength(7);
  for (const node of walk(root)) expect(follow(root, stepsTo(node))).toBe(node);
});

test('a missing path is followed as far as it exists', () => {
  expect(follow(root, [0, 9]).label).toBe('train.py:10 main');
  expect(pathTo(follow(root, [0, 2])).map((n) => n.label)).toEqual(['all allocated', 'train.py:10 main', 'operator()']);
});

test('self bytes are those without the calls', () => {
  expect(root.children.map((node) => [selfOf(node, 'bytes', false), selfOf(node, 'bytes', true)])).toEqual([
    [10, 100],
    [7, 7],
    [0, 5],
  ]);
  expect(selfOf(root, 'bytes', true)).toBe(0);
  expect(selfOf(root.children[0]!.children[0]!, 'bytes', true)).toBe(null);
  expect(root.children.map((node) => node.isGroup)).toEqual([false, false, true]);
});
