// Files that are dropped on the page, or chosen with its button.

import { batch, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { choose } from '../state/open';
import { recording, recordings, source } from '../state/recordings';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

const dragged = signal(false);
/** The file that is being read, and how many bytes of it were; null: none. */
const opening = signal<{ file: File; bytes: number } | null>(null);

/** Opens files, one after the other, and shows the last that is a recording. */
export async function openFiles(files: Iterable<File> | null | undefined): Promise<void> {
  // Files may come before the page knows who answers.
  if (!files || !source) return;
  const failures: string[] = [];
  const tried = <T,>(promise: Promise<T>): Promise<T | null> =>
    promise.catch((e: unknown) => {
      failures.push(reason(e));
      return null;
    });
  let last: number | null = null;
  for (const file of files) {
    const read = (bytes: number) => (opening.value = { file, bytes });
    read(0);
    last = (await tried(source.open(file, read))) ?? last;
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
        void openFiles(e.dataTransfer?.files);
      },
      { signal },
    );
    return () => listeners.abort();
  }, []);

  if (opening.value !== null) {
    const { file, bytes } = opening.value;
    return (
      <div class="drop" role="status">
        <p>Reading {file.name}</p>
        {bytes > 0 && <progress value={bytes} max={file.size} aria-label="How much is read" />}
      </div>
    );
  }
  if (!dragged.value) return null;
  const opens = recording.value ? 'Drop a snapshot to open it beside the others' : 'Drop a snapshot to open it';
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
