import type { ComponentChildren } from 'preact';

/** An entry of a list of chips, with a button that removes it. `children` is the text, as it looks. */
export function Chip({ text, onRemove, children }: { text: string; onRemove: () => void; children: ComponentChildren }) {
  return (
    <li class="transform">
      {children}
      <button type="button" class="transform-remove" aria-label={`Remove: ${text}`} title="Remove" onClick={onRemove}>
        ×
      </button>
    </li>
  );
}
