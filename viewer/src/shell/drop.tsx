// Opens files that are dropped on the page, or chosen with its button.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { recording, recordings } from '../state/recordings';
import { openFiles } from './open-files';

const dragged = signal(false);

const carriesFiles = (e: DragEvent) => e.dataTransfer?.types.includes('Files') ?? false;

export function DropTarget() {
  useEffect(() => {
    const listeners = new AbortController();
    const { signal } = listeners;
    const over = (e: DragEvent) => {
      if (!carriesFiles(e)) return;
      e.preventDefault();
      dragged.value = true;
    };
    window.addEventListener('dragenter', over, { signal });
    window.addEventListener('dragover', over, { signal });
    window.addEventListener(
      'dragleave',
      (e) => {
        // The pointer left the window, not only an element in it.
        if (e.relatedTarget === null) dragged.value = false;
      },
      { signal },
    );
    window.addEventListener(
      'drop',
      (e) => {
        if (!carriesFiles(e)) return;
        e.preventDefault();
        dragged.value = false;
        void openFiles(e.dataTransfer?.files);
      },
      { signal },
    );
    return () => listeners.abort();
  }, []);

  if (!dragged.value) return null;
  const opens = recording.value
    ? 'Drop a snapshot to open it beside the others, or a trace of torch.profiler to see its operators'
    : 'Drop a snapshot to open it';
  return (
    <div class="drop">
      <p>{opens}</p>
    </div>
  );
}

export function OpenButton() {
  const input = useRef<HTMLInputElement>(null);
  if (!recordings.value) return null;
  return (
    <>
      <button type="button" class="button" onClick={() => input.current?.click()}>
        Open
      </button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        aria-label="Open a snapshot"
        onChange={(e) => {
          const chosen = e.currentTarget;
          void openFiles(chosen.files).then(() => (chosen.value = ''));
        }}
      />
    </>
  );
}
