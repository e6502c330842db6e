// The call tree of live memory, as linked nodes: callers above callees.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Calls, type Names } from '../source/source';

export interface Node {
  label: string;
  /** The frame's number; null if the node is not a frame. */
  frame: number | null;
  /** Identifies the node among its siblings: its frame, or -1, -2, ... for nodes that are not frames. */
  step: number;
  parent: Node | null;
  depth: number;
  /** Whether it stands for several collapsed frames. */
  isGroup: boolean;
  /** Live bytes at the moment, allocated in this node or below it. */
  bytes: number;
  count: number;
  /** Bytes and blocks at the compared moment; 0 without one. */
  before: number;
  countBefore: number;
  /** Bytes that the search matches. */
  found: number;
  /** Its width in the picture. */
  weight: number;
  /** Heaviest first. */
  children: Node[];
}

/** Builds the tree from an answer that lists callers before callees. */
export function callTree(calls: Calls, names: Names): Node {
  const root: Node = {
    label: 'all allocated',
    frame: null,
    step: -1,
    parent: null,
    depth: 0,
    isGroup: false,
    bytes: 0,
    count: 0,
    before: 0,
    countBefore: 0,
    found: 0,
    weight: 0,
    children: [],
  };
  const nodes: Node[] = [];
  calls.parent.forEach((caller, i) => {
    const parent = caller === NONE ? root : entryAt(nodes, caller);
    const frame = numberAt(calls.frame, i);
    const node: Node = {
      label: frame === NONE ? entryAt(calls.words, numberAt(calls.word, i)) : entryAt(names.label, frame),
      frame: frame === NONE ? null : frame,
      step: frame === NONE ? -1 - numberAt(calls.word, i) : frame,
      parent,
      depth: parent.depth + 1,
      isGroup: frame === NONE && numberAt(calls.word, i) >= calls.first_group,
      bytes: numberAt(calls.bytes, i),
      count: numberAt(calls.count, i),
      before: numberAt(calls.bytes_before, i),
      countBefore: numberAt(calls.count_before, i),
      found: numberAt(calls.found, i),
      weight: numberAt(calls.weight, i),
      children: [],
    };
    nodes.push(node);
    parent.children.push(node);
    if (parent !== root) return;
    for (const of of ['bytes', 'count', 'before', 'countBefore', 'found', 'weight'] as const) root[of] += node[of];
  });
  return root;
}

/**
 * Returns the bytes that the node's own line allocated: those without the calls below it. In an inverted tree, the outermost nodes are the
 * allocating lines, and their callers below allocate nothing (null).
 */
export function selfOf(node: Node, of: 'bytes' | 'before', inverted: boolean): number | null {
  if (inverted && node.depth > 0) return node.depth === 1 ? node[of] : null;
  return node.children.reduce((rest, child) => rest - child[of], node[of]);
}

/** Returns the chain from the root to `node`, including both. */
export function pathTo(node: Node): Node[] {
  const path: Node[] = [];
  for (let n: Node | null = node; n; n = n.parent) path.push(n);
  return path.reverse();
}

/** Returns the steps from the root to `node`. */
export const stepsTo = (node: Node): number[] =>
  pathTo(node)
    .slice(1)
    .map(({ step }) => step);

/** Follows steps in a tree of the same names; stops at the last node found if a step is missing. */
export function follow(root: Node, steps: readonly number[]): Node {
  let node = root;
  for (const step of steps) {
    const next = node.children.find((c) => c.step === step);
    if (!next) break;
    node = next;
  }
  return node;
}
