import { useEffect, useRef } from 'preact/hooks';
import { keysInMenu } from '../../save/menu';
import type { CallAction } from '../../parts/call-actions';

export interface CallMenuProps {
  /** The name of the node. */
  name: string;
  actions: readonly CallAction[];
  /** The corner, in CSS pixels of the window. */
  x: number;
  y: number;
  close: () => void;
}

/** The menu of a node of the call tree. The element that had the focus gets it back. */
export function CallMenu({ name, actions, x, y, close }: CallMenuProps) {
  const menu = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = menu.current;
    const before = document.activeElement;
    if (!box) return;
    box.showPopover();
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`;
    box.querySelector('button')?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <div
      ref={menu}
      class="save-menu call-menu"
      role="menu"
      aria-label={`Transforms of ${name}`}
      popover="auto"
      onToggle={(e) => (e as Event as ToggleEvent).newState === 'closed' && close()}
      onKeyDown={keysInMenu}
    >
      {actions.map(({ key, label, act }) => (
        <button
          key={key}
          type="button"
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            close();
            act();
          }}
        >
          <span>{label}</span> <kbd aria-hidden="true">{key}</kbd>
        </button>
      ))}
    </div>
  );
}
