// Two panes with a boundary that moves. The boundary remembers its place in the browser.

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { paneSize, setPane } from '../state/panes';

export interface SplitProps {
  /** The name under which the size is stored. */
  name: string;
  /** What the sized pane has, for the labels of its boundary: `stack`. */
  pane: string;
  /** Whether the panes are side by side, or one above the other. */
  panes: 'beside' | 'above';
  /** The pane that has the stored size; the other one takes the rest. */
  sized: 'first' | 'second';
  /** The default size, in CSS. */
  initial: string;
  /** The greatest size until the user moves the boundary, in CSS. */
  most?: string;
  /** The least size of both panes in CSS pixels. */
  least?: number;
  first: ComponentChildren;
  /** Null: the first pane takes all. */
  second: ComponentChildren | null;
}

/** CSS pixels that an arrow key moves a boundary; with Shift, five times as far. */
const STEP = 16;

export function Split({ name, pane, panes, sized, initial, most, least = 80, first, second }: SplitProps) {
  const box = useRef<HTMLDivElement>(null);
  const chosen = paneSize(name);
  const isCollapsed = chosen?.isCollapsed ?? false;
  const isBeside = panes === 'beside';
  const length = (of: Element) => (isBeside ? of.clientWidth : of.clientHeight);
  const element = () => box.current!.children[sized === 'first' ? 0 : 2]!;
  const set = (size: number) => {
    const most = length(box.current!) - least;
    setPane(name, { size: Math.round(Math.max(Math.min(size, most), least)), isCollapsed: false });
  };
  const toggle = () => setPane(name, { size: isCollapsed ? chosen!.size : length(element()), isCollapsed: !isCollapsed });

  const drag = (e: PointerEvent) => {
    if (e.button !== 0 || isCollapsed) return;
    e.preventDefault();
    const bar = e.currentTarget as HTMLElement;
    const place = (of: PointerEvent) => (isBeside ? of.clientX : of.clientY);
    const [from, size] = [place(e), length(element())];
    const move = (m: PointerEvent) => set(size + (sized === 'first' ? 1 : -1) * (place(m) - from));
    const end = () => {
      for (const [event, act] of [
        ['pointermove', move],
        ['pointerup', end],
        ['pointercancel', end],
      ] as const)
        bar.removeEventListener(event, act);
    };
    bar.setPointerCapture(e.pointerId);
    bar.addEventListener('pointermove', move);
    bar.addEventListener('pointerup', end);
    bar.addEventListener('pointercancel', end);
  };
  const keys = (e: KeyboardEvent) => {
    const [back, forth] = isBeside ? ['ArrowLeft', 'ArrowRight'] : ['ArrowUp', 'ArrowDown'];
    const towards = e.key === back ? -1 : e.key === forth ? 1 : undefined;
    if (e.key === 'Enter') toggle();
    else if (towards !== undefined && !isCollapsed)
      set(length(element()) + towards * (sized === 'first' ? 1 : -1) * STEP * (e.shiftKey ? 5 : 1));
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const size = isCollapsed ? '0px' : chosen ? `${chosen.size}px` : initial;
  // A pane of a window that became smaller leaves room for the other.
  const style = { flex: `0 1 ${size}`, [isBeside ? 'maxWidth' : 'maxHeight']: (!chosen && most) || `calc(100% - ${least}px)` };
  const paneOf = (content: ComponentChildren, isSized: boolean) => (
    <div class={isSized ? 'split-pane' : 'split-pane split-rest'} {...(isSized ? { style, hidden: isCollapsed } : {})}>
      {content}
    </div>
  );
  if (second === null) return <div class="split">{paneOf(first, false)}</div>;
  return (
    <div ref={box} class={`split split-${panes}`} data-split={name}>
      {paneOf(first, sized === 'first')}
      <div class="split-bar">
        <div
          class="split-handle"
          role="separator"
          tabIndex={0}
          aria-orientation={isBeside ? 'vertical' : 'horizontal'}
          aria-label={`Resize the ${pane} with the arrow keys, ${isCollapsed ? 'expand' : 'collapse'} it with Enter`}
          aria-valuenow={isCollapsed ? 0 : (chosen?.size ?? 0)}
          aria-valuetext={isCollapsed ? 'closed' : chosen ? `${chosen.size} pixels` : 'the default'}
          title="Drag to move, double click for the default"
          onPointerDown={drag}
          onDblClick={() => setPane(name, null)}
          onKeyDown={keys}
        />
        <button
          type="button"
          class="split-toggle"
          tabIndex={-1}
          aria-label={`${isCollapsed ? 'Expand' : 'Collapse'} the ${pane}`}
          title={`${isCollapsed ? 'Expand' : 'Collapse'} the ${pane}`}
          aria-expanded={!isCollapsed}
          onClick={toggle}
        >
          {ARROWS[panes][(sized === 'first') === isCollapsed ? 1 : 0]}
        </button>
      </div>
      {paneOf(second, sized === 'second')}
    </div>
  );
}

/** The directions in which a boundary moves when its pane is collapsed or expanded. */
const ARROWS = { beside: '‹›', above: '⌃⌄' };
