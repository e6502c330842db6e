import { useEffect, useRef, useState } from 'preact/hooks';
import { CALL_KEYS } from '../parts/call-actions';
import { DEFAULT_EDITOR, editor } from '../state/editor';
import { BINDINGS, GESTURES, helpShown } from './keys';

const CALLS_TITLE = 'In the call tree';

/** A dialog with the keys of the page, and the settings that belong to no view. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const find = useRef<HTMLInputElement>(null);
  const shown = helpShown.value;
  const [sought, setSought] = useState('');
  const has = (...texts: string[]) => texts.join(' ').toLowerCase().includes(sought.trim().toLowerCase());
  useEffect(() => {
    if (shown) {
      dialog.current?.showModal();
      // Not `autofocus`, which browsers report as an error in a frame of a notebook.
      find.current?.focus();
    } else dialog.current?.close();
    setSought('');
  }, [shown]);
  const closeOnBackdrop = (e: MouseEvent) => e.target === dialog.current && (helpShown.value = false);
  // A hidden text field keeps the focus until the next frame: keys pressed before it would be lost.
  const closeOnEscape = (e: KeyboardEvent) => {
    if (e.key !== 'Escape') return;
    e.preventDefault();
    if (e.target instanceof HTMLElement) e.target.blur();
    dialog.current?.close();
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (helpShown.value = false)}
      onClick={closeOnBackdrop}
      onKeyDown={closeOnEscape}
    >
      <div class="help-body">
        <header class="help-head">
          <h2 id="help-title">Keys</h2>
          <button type="button" class="button" onClick={() => (helpShown.value = false)}>
            Close
          </button>
        </header>
        <label class="help-find">
          <span class="visually-hidden">Find a key</span>
          <input
            type="text"
            role="searchbox"
            ref={find}
            value={sought}
            placeholder="Find: zoom, block, note"
            autocomplete="off"
            onInput={(e) => setSought(e.currentTarget.value)}
          />
        </label>
        <div class="help-columns">
          <dl>
            {BINDINGS.filter((b) => has(b.shown, b.does)).map((b) => (
              <div key={b.shown}>
                <dt>
                  <kbd>{b.shown}</kbd>
                </dt>
                <dd>{b.does}</dd>
              </div>
            ))}
          </dl>
          <div>
            <dl>
              {GESTURES.filter((gesture) => has(...gesture)).map(([shown, does]) => (
                <div key={shown}>
                  <dt>{shown}</dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
            {CALL_KEYS.some((key) => has(...key, CALLS_TITLE)) && (
              <>
                <h3>{CALLS_TITLE}</h3>
                <dl>
                  {CALL_KEYS.filter((key) => has(...key, CALLS_TITLE)).map(([shown, does]) => (
                    <div key={shown}>
                      <dt>
                        <kbd>{shown}</kbd>
                      </dt>
                      <dd>{does}</dd>
                    </div>
                  ))}
                </dl>
              </>
            )}
            {sought === '' && (
              <label class="help-editor">
                <span>Editor for frames</span>
                <input
                  type="text"
                  value={editor.value}
                  placeholder={DEFAULT_EDITOR}
                  spellcheck={false}
                  autocomplete="off"
                  title="An address with {file} and {line}; empty: no links"
                  onChange={(e) => (editor.value = e.currentTarget.value.trim())}
                />
              </label>
            )}
          </div>
        </div>
      </div>
    </dialog>
  );
}
