// Files that are dropped on the page, or chosen with its button.

import { batch, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { choose } from '../state/open';
import { recording, recordings, source } from '../state/recordings';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

const dragged = signal(false);
/** The name of the file that the server is reading; null: none. */
const opening = signal<string | null>(null);

const CANNOT_OPEN = 'This page holds its own recording and cannot read others. Run "vramscope view FILE" to open a file.';

async function open(files: FileList | null | undefined): Promise<void> {
  if (!files || files.length === 0) return;
  if (!source?.open) {
    trouble.value = CANNOT_OPEN;
    return;
  }
  const failures: string[] = [];
  const tried = <T,>(promise: Promise<T>): Promise<T | null> =>
    promise.catch((e: unknown) => {
      failures.push(reason(e));
      return null;
    });
  let last: number | null = null;
  for (const file of files) {
    opening.value = file.name;
    last = (await tried(source.open(file))) ?? last;
  }
  const all = last === null ? null : await tried(source.recordings());
  batch(() => {
    opening.value = null;
    trouble.value = failures.length > 0 ? failures.join(' ') : null;
    if (all === null || last === null) return;
    recordings.value = all;
    choose(last, 0);
  });
}

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
        // The pointer has left the window, not only an element in it.
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
        void open(e.dataTransfer?.files);
      },
      { signal },
    );
    return () => listeners.abort();
  }, []);

  if (opening.value !== null) {
    return (
      <div class="drop" role="status">
        <p>Reading {opening.value}</p>
      </div>
    );
  }
  if (!dragged.value) return null;
  const opens = recording.value ? 'Drop a snapshot to open it beside the others' : 'Drop a snapshot to open it';
  return (
    <div class="drop">
      <p>{source?.open ? opens : CANNOT_OPEN}</p>
    </div>
  );
}

export function OpenButton() {
  const input = useRef<HTMLInputElement>(null);
  // The source is set before the recordings are read.
  if (!recordings.value || !source.open) return null;
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
          void open(chosen.files).then(() => (chosen.value = ''));
        }}
      />
    </>
  );
}
