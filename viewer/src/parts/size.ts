import { useEffect, useRef, useState } from 'preact/hooks';
import type { RefObject } from 'preact';

/** Scrolls a box just enough to show the part between two heights. `covered` pixels of the box are hidden. */
export function bringIntoSight(box: HTMLElement | null, top: number, bottom: number, covered = 0): void {
  if (!box) return;
  const room = box.clientHeight - covered;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + room) box.scrollTop = bottom - room;
}

/** Returns the inner size of an element, kept up to date. */
export function useSize<E extends HTMLElement>(): [RefObject<E | null>, { width: number; height: number }] {
  const ref = useRef<E>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}
