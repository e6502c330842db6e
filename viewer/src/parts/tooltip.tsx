import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** A box near the pointer, inside the window. `x` and `y` are CSS pixels of the window. */
export function Tooltip({ x, y, children }: { x: number; y: number; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = ref.current;
    if (!box) return;
    const { width, height } = box.getBoundingClientRect();
    const right = x + 14 + width < innerWidth - 8;
    const below = y + 16 + height < innerHeight - 8;
    box.style.left = `${Math.max(8, right ? x + 14 : x - 10 - width)}px`;
    box.style.top = `${Math.max(8, below ? y + 16 : y - 10 - height)}px`;
  });
  return (
    <div ref={ref} class="part-tooltip" role="presentation">
      {children}
    </div>
  );
}

/** A list of names and values; a title shows the exact value of a rounded text. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: string, exact?: string])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value, exact]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd title={exact}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
