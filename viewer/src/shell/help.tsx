import { useEffect, useRef } from 'preact/hooks';
import { BINDINGS, GESTURES, helpShown } from './keys';

/** A dialog with the keys of the page. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = helpShown.value;
  useEffect(() => {
    if (shown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [shown]);
  const closeOnBackdrop = (e: MouseEvent) => e.target === dialog.current && (helpShown.value = false);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (helpShown.value = false)}
      onClick={closeOnBackdrop}
    >
      <div class="help-body">
        <header class="help-head">
          <h2 id="help-title">Keys</h2>
          <button type="button" class="button" onClick={() => (helpShown.value = false)}>
            Close
          </button>
        </header>
        <div class="help-columns">
          <dl>
            {BINDINGS.map((b) => (
              <div key={b.shown}>
                <dt>
                  <kbd>{b.shown}</kbd>
                </dt>
                <dd>{b.does}</dd>
              </div>
            ))}
          </dl>
          <dl>
            {GESTURES.map(([shown, does]) => (
              <div key={shown}>
                <dt>{shown}</dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </div>
      </div>
    </dialog>
  );
}
