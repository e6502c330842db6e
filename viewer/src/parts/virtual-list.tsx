import type { ComponentChildren, Ref } from 'preact';
import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useSize } from './size';
import {
  clampPosition,
  isInView,
  isScaled,
  physicalHeight,
  reveal,
  rowsSeen,
  stepOf,
  toPhysical,
  toVirtual,
  type Scrolling,
} from './virtual';

export interface VirtualListHandle {
  reveal: (row: number) => void;
}

export interface VirtualListProps {
  count: number;
  rowHeight: number;
  label: string;
  /** The chosen row, or null. */
  chosen: number | null;
  choose: (row: number) => void;
  /** Called when Enter is pressed on the chosen row. */
  enter?: () => void;
  row: (index: number) => ComponentChildren;
  /** Called with the half-open range `first..last` of rows that come into view. */
  seen?: (first: number, last: number) => void;
  /** Counts answered rows. Each change requests the rows in view again, because earlier requests may have been canceled. */
  answered?: number;
  rowClass?: (index: number) => string;
  handle?: Ref<VirtualListHandle>;
  id: string;
}

/**
 * A listbox with any number of rows of equal height; only those in view are in the document. Up, Down, PageUp, PageDown (a hundred rows),
 * Home and End choose a row.
 */
export function VirtualList(p: VirtualListProps) {
  const [box, { height }] = useSize<HTMLDivElement>();
  const [position, setPosition] = useState(0);
  const exact = useRef(0);
  const scrolling: Scrolling = { count: p.count, rowHeight: p.rowHeight, viewport: height };

  const moveTo = (to: number) => {
    exact.current = clampPosition(scrolling, to);
    setPosition(exact.current);
    if (box.current) box.current.scrollTop = toPhysical(scrolling, exact.current);
  };
  useImperativeHandle(p.handle ?? null, () => ({ reveal: (row) => moveTo(reveal(scrolling, exact.current, row)) }));

  const before = useRef({ chosen: p.chosen, count: p.count, height });
  useLayoutEffect(() => {
    const was = before.current;
    before.current = { chosen: p.chosen, count: p.count, height };
    if (p.chosen === null || height === 0) return;
    // If only the box was resized, a row that the user scrolled out of view stays out of view.
    const isResized = was.height > 0 && was.chosen === p.chosen && was.count === p.count;
    if (isResized && !isInView({ ...scrolling, viewport: was.height }, exact.current, p.chosen)) return;
    moveTo(reveal(scrolling, exact.current, p.chosen));
  }, [p.chosen, p.count, height]);

  const scrolled = (top: number) => {
    // The event of our own scrolling has a position rounded to a pixel, which is many rows in a scaled list.
    if (Math.abs(top - toPhysical(scrolling, exact.current)) <= 1) return;
    exact.current = toVirtual(scrolling, top);
    setPosition(exact.current);
  };

  useEffect(() => {
    const element = box.current;
    if (!element || !isScaled(scrolling)) return;
    // In a scaled list, the browser's wheel step would skip many rows; here it moves by the rows' pixels.
    const wheel = (e: WheelEvent) => {
      if (e.deltaY === 0 || e.ctrlKey) return;
      e.preventDefault();
      const unit = [1, p.rowHeight, height][e.deltaMode] ?? 1;
      moveTo(exact.current + e.deltaY * unit);
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => element.removeEventListener('wheel', wheel);
  }, [p.count, p.rowHeight, height]);

  const keys = (e: KeyboardEvent) => {
    if (e.key === 'Enter' && p.enter && p.chosen !== null) {
      e.preventDefault();
      return p.enter();
    }
    const to = stepOf(e.key, p.chosen ?? -1, p.count, 100);
    if (to === null || p.count === 0) return;
    e.preventDefault();
    e.stopPropagation();
    p.choose(to);
  };

  const { first, last } = rowsSeen(scrolling, position);
  useEffect(() => {
    if (height > 0) p.seen?.(first, last);
  }, [first, last, height, p.answered]);

  const top = toPhysical(scrolling, position) - (position - first * p.rowHeight);
  const rows = [];
  for (let i = first; i < last; i++) {
    rows.push(
      <div
        // Keyed by place, not by row, so that a jump changes texts without creating elements.
        key={i - first}
        id={`${p.id}-${i}`}
        role="option"
        aria-selected={i === p.chosen}
        aria-posinset={i + 1}
        aria-setsize={p.count}
        class={`virtual-row ${p.rowClass?.(i) ?? ''}`}
        style={{ top: `${top + (i - first) * p.rowHeight}px`, height: `${p.rowHeight}px` }}
        onClick={() => p.choose(i)}
      >
        {p.row(i)}
      </div>,
    );
  }
  const active = p.chosen !== null && p.chosen >= first && p.chosen < last;
  return (
    <div
      ref={box}
      class="virtual-list"
      role="listbox"
      tabIndex={0}
      aria-label={p.label}
      {...(active ? { 'aria-activedescendant': `${p.id}-${p.chosen}` } : {})}
      onScroll={(e) => scrolled(e.currentTarget.scrollTop)}
      onKeyDown={keys}
    >
      <div class="virtual-space" role="presentation" style={{ height: `${physicalHeight(scrolling)}px` }}>
        {rows}
      </div>
    </div>
  );
}
