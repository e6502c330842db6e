// The parts that the call tree's flame graph and its table share.

import type { ComponentChildren } from 'preact';
import type { Names } from '../../source/source';
import { pathTo, type Node } from '../../parts/calls';

export interface CallTreeProps {
  moment: number;
  /** The content and its moment, for saved pictures. */
  shows: string;
  root: Node;
  names: Names;
  /** Whether two moments are compared. */
  compared: boolean;
  /** Whether a search marks nodes. */
  searched: boolean;
  /** All live bytes, if the tree has only a part of them. */
  whole?: number;
}

/** The parts of a call tree that the flame graph and the table share. */
export interface CallTreePart extends CallTreeProps {
  label: string;
  zoomed: Node;
  zoom: (node: Node) => void;
  /** The node of the keyboard; null: none yet. */
  focused: Node | null;
  focus: (node: Node) => void;
  /** Opens the menu of a node at a position in the window. */
  openMenu: (node: Node, x: number, y: number) => void;
  /** Handles the keys of a node that both share. Returns whether it was one. */
  press: (e: KeyboardEvent, node: Node, place: () => { x: number; y: number }) => boolean;
  /** Controls of the head. */
  controls: ComponentChildren;
}

/** The path of the zoomed node; a click zooms out to a part of it. */
export function Crumbs({ zoomed, zoom }: Pick<CallTreePart, 'zoomed' | 'zoom'>) {
  return (
    <nav class="crumbs" aria-label="Path of the zoomed node">
      {pathTo(zoomed).map((node, i, all) => (
        <button
          key={i}
          type="button"
          class="crumb"
          aria-current={i === all.length - 1}
          onClick={() => zoom(node)}
          title={node.label}
        >
          {node.label}
        </button>
      ))}
    </nav>
  );
}
