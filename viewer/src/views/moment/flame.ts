// Lays out a call tree as a flame graph with the root on top.

import { pathTo, type Node } from '../../parts/calls';

export interface Box {
  node: Node;
  /** Left end and width, as fractions of the whole width. */
  x: number;
  width: number;
  /** The row, from 0 at the top. */
  depth: number;
}

/**
 * Lays out the boxes with the node `zoomed` at full width; its ancestors are above it at the same width. Boxes narrower than `smallest`, a
 * fraction of the whole width, are left out.
 */
export function layFlame(zoomed: Node, smallest: number): Box[] {
  const path = pathTo(zoomed);
  const boxes: Box[] = path.slice(0, -1).map((node) => ({ node, x: 0, width: 1, depth: node.depth }));
  const whole = zoomed.weight || 1;
  // An explicit stack, because recursive programs produce trees deeper than the call stack allows.
  const waiting: [node: Node, x: number][] = [[zoomed, 0]];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [node, x] = next;
    const width = node === zoomed ? 1 : node.weight / whole;
    if (width < smallest) continue;
    boxes.push({ node, x, width, depth: node.depth });
    let at = x;
    const children = node.children.map((child): [Node, number] => {
      const begin = at;
      at += child.weight / whole;
      return [child, begin];
    });
    waiting.push(...children.reverse());
  }
  return boxes;
}

/** Returns the box at a position, or null. */
export function boxAt(boxes: readonly Box[], x: number, depth: number): Box | null {
  return boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.width) ?? null;
}

/** Returns the node that an arrow key leads to, or null. */
export function stepInTree(node: Node, key: string): Node | null {
  const siblings = node.parent?.children ?? [node];
  const at = siblings.indexOf(node);
  switch (key) {
    case 'ArrowUp':
      return node.parent;
    case 'ArrowDown':
      return node.children[0] ?? null;
    case 'ArrowLeft':
      return siblings[at - 1] ?? null;
    case 'ArrowRight':
      return siblings[at + 1] ?? null;
    default:
      return null;
  }
}
