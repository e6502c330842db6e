// Lays out a call tree as a flame graph with the root on top.

import { pathTo, type Node } from './calls';

export interface Box {
  node: Node;
  /** Left end and width, as parts of the whole width. */
  x: number;
  width: number;
  /** Row, from 0 at the top. */
  depth: number;
}

/**
 * The boxes when the node `zoomed` fills the width; those that lead to it lie above it, as wide as it. Boxes that would be narrower
 * than `smallest`, a part of the whole width, are left out.
 */
export function layFlame(zoomed: Node, smallest: number): Box[] {
  const path = pathTo(zoomed);
  const boxes: Box[] = path.slice(0, -1).map((node) => ({ node, x: 0, width: 1, depth: node.depth }));
  const whole = zoomed.weight || 1;
  // Those that wait, the next one last: programs that recurse make trees that are deeper than calls may be here.
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

/** The box at a place, or null. */
export function boxAt(boxes: readonly Box[], x: number, depth: number): Box | null {
  return boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.width) ?? null;
}

/** The node to which an arrow key leads; null where there is none. */
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
