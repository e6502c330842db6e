// The call tree of what is live, as nodes that name each other: callers above, what they called beneath.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Calls, type Names } from '../source/source';

export interface Node {
  label: string;
  /** The number of the frame; null where the node stands for something else. */
  frame: number | null;
  parent: Node | null;
  depth: number;
  /** Bytes that are live at the moment, allocated in this node or below it. */
  bytes: number;
  count: number;
  /** Bytes and blocks at the moment that is compared with; 0 without one. */
  before: number;
  countBefore: number;
  /** How many of the bytes the search finds. */
  found: number;
  /** Its width in the picture. */
  weight: number;
  /** Heaviest first. */
  children: Node[];
}

/** The tree of an answer, in which callers stand before those they call. */
export function callTree(calls: Calls, names: Names): Node {
  const root: Node = {
    label: 'all allocated',
    frame: null,
    parent: null,
    depth: 0,
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
      parent,
      depth: parent.depth + 1,
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

/** The chain from the root to `node`, both included. */
export function pathTo(node: Node): Node[] {
  const path: Node[] = [];
  for (let n: Node | null = node; n; n = n.parent) path.push(n);
  return path.reverse();
}

/** Names a node among its siblings: by the number of its frame, for several frames may have one label. */
export type Step = string | number;
const stepTo = (node: Node): Step => node.frame ?? node.label;

/** The steps from the root to `node`. */
export const stepsTo = (node: Node): Step[] => pathTo(node).slice(1).map(stepTo);

/** The node to which these steps lead in a tree of the same names; where a step is missing, the last node before it. */
export function follow(root: Node, steps: readonly Step[]): Node {
  let node = root;
  for (const step of steps) {
    const next = node.children.find((c) => stepTo(c) === step);
    if (!next) break;
    node = next;
  }
  return node;
}
