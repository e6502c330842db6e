import { expect, test } from 'vitest';
import type { Node } from '../../parts/calls';
import { boxAt, layFlame, stepInTree } from './flame';

function node(label: string, weight: number, children: Node[] = [], depth = 0): Node {
  const made: Node = {
    label,
    frame: null,
    step: -1,
    parent: null,
    depth,
    isGroup: false,
    bytes: weight,
    count: 1,
    before: 0,
    countBefore: 0,
    found: 0,
    weight,
    children,
  };
  for (const c of children) c.parent = made;
  return made;
}

const leaf = node('leaf', 30, [], 2);
const wide = node('wide', 60, [leaf], 1);
const small = node('small', 40, [], 1);
const root = node('root', 100, [wide, small]);

test('children are below their parent, side by side', () => {
  expect(layFlame(root, 0).map((b) => [b.node.label, b.x, b.width, b.depth])).toEqual([
    ['root', 0, 1, 0],
    ['wide', 0, 0.6, 1],
    ['leaf', 0, 0.3, 2],
    ['small', 0.6, 0.4, 1],
  ]);
  expect(layFlame(root, 0.5).map((b) => b.node.label)).toEqual(['root', 'wide']);
});

test('a zoomed node fills the width below its ancestors', () => {
  const boxes = layFlame(wide, 0);
  expect(boxes.map((b) => [b.node.label, b.x, b.width])).toEqual([
    ['root', 0, 1],
    ['wide', 0, 1],
    ['leaf', 0, 0.5],
  ]);
  expect(boxAt(boxes, 0.4, 2)?.node).toBe(leaf);
  expect(boxAt(boxes, 0.6, 2)).toBeNull();
});

test('arrow keys move in the tree', () => {
  expect(stepInTree(root, 'ArrowDown')).toBe(wide);
  expect(stepInTree(wide, 'ArrowRight')).toBe(small);
  expect(stepInTree(small, 'ArrowRight')).toBeNull();
  expect(stepInTree(leaf, 'ArrowUp')).toBe(wide);
});
