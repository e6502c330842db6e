// The call tree of what is live: callers above, what they called beneath.

import { numberAt } from '../numbers/at';
import { ORIGINS, type Live, type Names } from '../source/source';
import { NO_STACK, framesOf, readableFrames } from './stacks';

export interface Node {
  label: string;
  kind: 'root' | 'origin' | 'frame' | 'none';
  /** Of a frame its number. */
  frame: number | null;
  parent: Node | null;
  depth: number;
  /** Live at the moment, beneath this node. */
  bytes: number;
  count: number;
  /** The same at the moment compared with; 0 without one. */
  before: number;
  countBefore: number;
  /** What of its bytes a search finds. */
  found: number;
  /** Its share of the picture: `bytes`; when comparing, the larger of both moments, added up from the leaves. */
  weight: number;
  /** Heaviest first. */
  children: Node[];
}

interface Growing extends Node {
  known: Map<string | number, Growing>;
  own: number;
  ownBefore: number;
  children: Growing[];
}

function grow(parent: Growing | null, key: string | number, label: string, kind: Node['kind']): Growing {
  const known = parent?.known.get(key);
  if (known) return known;
  const node: Growing = {
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
 * The tree of `live`, of the user's frames or of all. With `before`, a second moment of the same recording, the tree
 * has what is live at either. `matches` are the entries of `live` that a search finds.
 */
export function tree(
  live: Live,
  names: Names,
  allFrames: boolean,
  before: Live | null = null,
  matches: Uint8Array | null = null,
): Node {
  const root = grow(null, 'root', 'all allocated', 'root');
  const add = (from: Live, earlier: boolean) => {
    for (let i = 0; i < from.stack.length; i++) {
      const origin = ORIGINS[numberAt(from.origin, i)];
      let node = origin ? grow(root, origin, origin, 'origin') : root;
      const stack = numberAt(from.stack, i);
      const frames = allFrames ? [...framesOf(names, stack)] : readableFrames(names, stack);
      for (const f of frames.reverse()) node = grow(node, f, names.label[f] ?? '', 'frame');
      if (node === root) node = grow(root, NO_STACK, NO_STACK, 'none');
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

function weigh(node: Growing): void {
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

/** A node among its siblings: the number of its frame, for frames may share a label. */
export type Step = string | number;
const stepTo = (node: Node): Step => node.frame ?? node.label;

/** The steps from the root to `node`. */
export const stepsTo = (node: Node): Step[] => pathTo(node).slice(1).map(stepTo);

/** The node at the same place in another tree of these names, as far as there is one. */
export function follow(root: Node, steps: readonly Step[]): Node {
  let node = root;
  for (const step of steps) {
    const next = node.children.find((c) => stepTo(c) === step);
    if (!next) break;
    node = next;
  }
  return node;
}
