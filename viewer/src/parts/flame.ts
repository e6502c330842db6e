// Where the nodes of a call tree lie: an icicle, the root on top.

import { pathTo, type Node } from '../live/tree';

export interface Box {
  node: Node;
  /** From 0 to 1. */
  x: number;
  width: number;
  /** Row, from 0 at the top. */
  depth: number;
}

/**
 * Boxes at least `smallest` wide, as a share of the whole width, when `zoomed` fills it: what leads to it lies above,
 * as wide as all.
 */
export function layFlame(zoomed: Node, smallest: number): Box[] {
  const path = pathTo(zoomed);
  const boxes: Box[] = path.slice(0, -1).map((node) => ({ node, x: 0, width: 1, depth: node.depth }));
  const whole = zoomed.weight || 1;
  const lay = (node: Node, x: number) => {
    const width = node === zoomed ? 1 : node.weight / whole;
    if (width < smallest) return;
    boxes.push({ node, x, width, depth: node.depth });
    let at = x;
    for (const child of node.children) {
      lay(child, at);
      at += child.weight / whole;
    }
  };
  lay(zoomed, 0);
  return boxes;
}

/** The box at a place, or null. */
export function boxAt(boxes: readonly Box[], x: number, depth: number): Box | null {
  return boxes.find((b) => b.depth === depth && x >= b.x && x < b.x + b.width) ?? null;
}

/** Where an arrow leads from a node. */
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
