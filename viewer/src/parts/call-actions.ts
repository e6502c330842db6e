// The transforms that a node of the call tree offers: entries of its menu, and keys.

import { isPlace } from '../names/stacks';
import type { CallTransform, FramesOf, Names } from '../source/source';
import { callsOf, isInverted } from '../state/grouping';
import { showSource } from '../state/source';
import { addTransform, collapsedFrames, expand, framesAt, nameOf, stepText } from '../state/transforms';
import { pathTo, type Node } from './calls';

/** The frames that the transforms of a node are about; null: it has none of the kind. */
interface Targets {
  /** Its function, or the frames that it stands for. */
  node: FramesOf | null;
  file: FramesOf | null;
  library: FramesOf | null;
}

function targetsOf(node: Node, names: Names): Targets {
  if (node.isGroup) return { node: collapsedFrames(node.label), file: null, library: null };
  if (node.frame === null) return { node: null, file: null, library: null };
  const { function: of, file, library } = framesAt(names, node.frame);
  return { node: of, file, library };
}

const pathOf = (node: Node, names: Names) =>
  pathTo(node)
    .slice(1)
    .map((one) => (one.frame === null ? one.label : stepText(names, one.frame)));

/** An entry of the menu. */
export interface CallAction {
  key: string;
  label: string;
  act: () => void;
}

interface Offer {
  key: string;
  /** The help of the key. */
  does: string;
  offer: (node: Node, targets: Targets, names: Names) => { label: string; act: () => void } | null;
}

const add = (label: string, transform: CallTransform) => ({ label, act: () => addTransform(transform) });

/** An offer about frames of a kind. */
const about = (
  key: string,
  of: keyof Targets,
  does: string,
  label: (name: string) => string,
  transform: (frames: FramesOf) => CallTransform,
): Offer => ({
  key,
  does,
  offer: (_, targets) => {
    const frames = targets[of];
    return frames && add(label(nameOf(frames)), transform(frames));
  },
});

const OFFERS: readonly Offer[] = [
  {
    key: 'F',
    does: 'Show only the allocations of this call path',
    offer: (node, _, names) =>
      node.parent &&
      add('Only this call path', {
        does: 'focus_path',
        calls: callsOf.value,
        inverted: isInverted.value,
        path: pathOf(node, names),
      }),
  },
  about(
    'f',
    'node',
    'Show only the allocations through the function',
    (name) => `Only through ${name}`,
    (frames) => ({ does: 'focus', frames }),
  ),
  about(
    'd',
    'node',
    'Drop the allocations through the function',
    (name) => `Without allocations through ${name}`,
    (frames) => ({ does: 'drop', frames }),
  ),
  about(
    'D',
    'library',
    'Drop the allocations through the library',
    (name) => `Without allocations through the library ${name}`,
    (frames) => ({ does: 'drop', frames }),
  ),
  about(
    'm',
    'node',
    'Merge the function into its callers',
    (name) => `Merge ${name} into its callers`,
    (frames) => ({ does: 'merge', frames }),
  ),
  about(
    'M',
    'library',
    'Merge the library into its callers',
    (name) => `Merge the library ${name} into its callers`,
    (frames) => ({ does: 'merge', frames }),
  ),
  about(
    'i',
    'file',
    'Merge the file into its callers',
    (name) => `Merge the file ${name} into its callers`,
    (frames) => ({ does: 'merge', frames }),
  ),
  {
    key: 'r',
    does: 'Collapse the recursion of the function',
    offer: (node, { node: frames }) =>
      frames && !node.isGroup ? add(`Collapse the recursion of ${nameOf(frames)}`, { does: 'collapse_recursion', frames }) : null,
  },
  about(
    'c',
    'file',
    'Collapse the file to one frame',
    (name) => `Collapse the file ${name}`,
    (frames) => ({ does: 'collapse', frames }),
  ),
  about(
    'C',
    'library',
    'Collapse the library to one frame',
    (name) => `Collapse the library ${name}`,
    (frames) => ({ does: 'collapse', frames }),
  ),
  {
    key: 's',
    does: 'Show the source',
    offer: ({ frame }, _, names) =>
      frame !== null && isPlace(names.file[frame] ?? '')
        ? { label: 'Show the source', act: () => showSource(frame, names) }
        : null,
  },
  {
    key: 'e',
    does: 'Expand the collapsed frames',
    offer: (node) => (node.isGroup ? { label: `Expand ${node.label}`, act: () => expand(node.label) } : null),
  },
];

/** The keys of the call tree, for the help. */
export const CALL_KEYS: readonly (readonly [key: string, does: string])[] = [
  ['Shift F10', 'List the transforms of the call; so does a right click'],
  ...OFFERS.map(({ key, does }) => [key, does] as const),
];

/** Returns the transforms that a node offers. */
export function actionsOf(node: Node, names: Names): CallAction[] {
  const targets = targetsOf(node, names);
  return OFFERS.flatMap(({ key, offer }) => {
    const one = offer(node, targets, names);
    return one ? [{ key, ...one }] : [];
  });
}

/** Applies the transform of a key. Returns whether the node offers it. */
export function actWithKey(e: KeyboardEvent, node: Node, names: Names): boolean {
  if (e.ctrlKey || e.metaKey || e.altKey) return false;
  const one = actionsOf(node, names).find(({ key }) => key === e.key);
  one?.act();
  return one !== undefined;
}

export const isMenuKey = (e: KeyboardEvent) => e.key === 'ContextMenu' || (e.shiftKey && e.key === 'F10');
