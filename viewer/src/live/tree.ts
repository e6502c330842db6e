// The call tree of what is live: callers above, what they called beneath.

import { numberAt } from '../numbers/at';
import { ORIGINS, type Live, type Names } from '../source/source';
import { NO_STACK, framesOf, readableFrames } from './stacks';

export interface Node {
  label: string;
  kind: 'root' | 'origin' | 'frame' | 'none';
  /** The number of the frame; null for other kinds. */
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
  /** Its width in the picture: `bytes`, or where two moments are compared the larger of both, added up from the leaves. */
  weight: number;
  /** Heaviest first. */
  children: Node[];
}

/** A node to which stacks are still added. `own` are bytes that were allocated in it, and not in a child. */
interface UnfinishedNode extends Node {
  known: Map<string | number, UnfinishedNode>;
  own: number;
  ownBefore: number;
  children: UnfinishedNode[];
}

/** The child of a node with this key, which is made where it is missing. */
function childOf(parent: UnfinishedNode | null, key: string | number, label: string, kind: Node['kind']): UnfinishedNode {
  const known = parent?.known.get(key);
  if (known) return known;
  const node: UnfinishedNode = {
    label,
    kind,
    frame: typeof key === 'number' ? key : null,
    parent,
    depth: parent ? parent.depth + 1 : 0,
    bytes: 0,
    count: 0,
    before: 0,
    countBefore: 0,
    found: 0,
    weight: 0,
    children: [],
    known: new Map(),
    own: 0,
    ownBefore: 0,
  };
  parent?.known.set(key, node);
  parent?.children.push(node);
  return node;
}

/**
 * The call tree of `live`, made of all frames or of the user's alone. With `before`, a second moment of the same recording, it
 * has what is live at either. `matches` are the entries of `live` that the search finds (see match.ts).
 */
export function tree(
  live: Live,
  names: Names,
  allFrames: boolean,
  before: Live | null = null,
  matches: Uint8Array | null = null,
): Node {
  const root = childOf(null, 'root', 'all allocated', 'root');
  const add = (from: Live, earlier: boolean) => {
    for (let i = 0; i < from.stack.length; i++) {
      const origin = ORIGINS[numberAt(from.origin, i)];
      let node = origin ? childOf(root, origin, origin, 'origin') : root;
      const stack = numberAt(from.stack, i);
      const frames = allFrames ? [...framesOf(names, stack)] : readableFrames(names, stack);
      for (const f of frames.reverse()) node = childOf(node, f, names.label[f] ?? '', 'frame');
      if (node === root) node = childOf(root, NO_STACK, NO_STACK, 'none');
      const [bytes, count] = [numberAt(from.bytes, i), numberAt(from.count, i)];
      if (earlier) node.ownBefore += bytes;
      else node.own += bytes;
      for (let n: Node | null = node; n; n = n.parent) {
        if (earlier) {
          n.before += bytes;
          n.countBefore += count;
        } else {
          n.bytes += bytes;
          if (matches?.[i]) n.found += bytes;
          n.count += count;
        }
      }
    }
  };
  add(live, false);
  if (before) add(before, true);
  weigh(root);
  return root;
}

/** Computes weights from the leaves up, and sorts children by them. */
function weigh(node: UnfinishedNode): void {
  node.weight = Math.max(node.own, node.ownBefore);
  for (const child of node.children) {
    weigh(child);
    node.weight += child.weight;
  }
  node.children.sort((a, b) => b.weight - a.weight || (a.label < b.label ? -1 : 1));
}

/** The chain from the root to `node`, both included. */
export function pathTo(node: Node): Node[] {
  const path: Node[] = [];
  for (let n: Node | null = node; n; n = n.parent) path.unshift(n);
  return path;
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
