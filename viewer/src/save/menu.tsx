import type { TargetedKeyboardEvent } from 'preact';
import { useId, useRef, useState } from 'preact/hooks';
import { view } from '../state/place';
import { recording } from '../state/recordings';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';
import { download, fileName, type SaveItem } from './files';

export interface SaveMenuProps {
  /** The content's part of the file name: `timeline`, `moment-12345`. */
  name: string;
  items: SaveItem[];
}

/** Moves the focus between the buttons of a menu. */
export function keysInMenu(e: TargetedKeyboardEvent<HTMLElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (step === undefined) return;
  e.preventDefault();
  e.stopPropagation();
  const all = [...e.currentTarget.querySelectorAll('button')];
  const at = all.indexOf(document.activeElement as HTMLButtonElement);
  all[(at + step + all.length) % all.length]?.focus();
}

/** A button that opens a menu of file formats. */
export function SaveMenu({ name, items }: SaveMenuProps) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);

  const save = async (item: SaveItem) => {
    menu.current?.hidePopover();
    button.current?.focus();
    try {
      // The ranks view belongs to no single recording.
      const of = view.value === 'ranks' ? 'job' : (recording.value?.name ?? '');
      download(await item.make(), fileName(of, name, item.extension));
    } catch (e) {
      trouble.value = `Saving failed: ${reason(e)}`;
    }
  };

  const toggled = (e: Event) => {
    const shown = (e as ToggleEvent).newState === 'open';
    setOpen(shown);
    if (!shown || !menu.current || !button.current) return;
    const at = button.current.getBoundingClientRect();
    const size = menu.current.getBoundingClientRect();
    const below = at.bottom + 4 + size.height < innerHeight;
    menu.current.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
    menu.current.style.top = `${below ? at.bottom + 4 : at.top - 4 - size.height}px`;
    menu.current.querySelector('button')?.focus();
  };

  return (
    <>
      <button
        ref={button}
        type="button"
        class="button save-button"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={`Save ${name}`}
        popovertarget={id}
      >
        Save
      </button>
      <div
        ref={menu}
        id={id}
        class="save-menu"
        role="menu"
        aria-label={`Save ${name} as`}
        popover="auto"
        onToggle={toggled}
        onKeyDown={keysInMenu}
      >
        {items.map((item) => (
          <button key={item.label} type="button" role="menuitem" tabIndex={-1} onClick={() => void save(item)}>
            {item.label}
          </button>
        ))}
      </div>
    </>
  );
}
