// Opens files one after the other, shows the progress, and lets the user cancel.

import { batch, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { isTrace } from '../source/trace';
import { choose } from '../state/choice';
import { showNewOperators } from '../state/operators';
import { file as shownFile } from '../state/place';
import { current, recordings, source } from '../state/recordings';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

interface Opening {
  file: File;
  /** Bytes read so far. */
  bytes: number;
  /** Why the file may be too large, and a callback for the decision to read it anyway. */
  doubt: { why: string; decide: (isRead: boolean) => void } | null;
  /** Cancels this file and the following ones. */
  stop: () => void;
}

const opening = signal<Opening | null>(null);

/** Resolves when all earlier files are opened. */
let before: Promise<unknown> = Promise.resolve();

/** Opens files one after the other, and shows the last one that is a recording. */
export function openFiles(files: Iterable<File> | null | undefined): Promise<void> {
  const all = [...(files ?? [])];
  const opened = before.then(() => openAll(all));
  before = opened;
  return opened;
}

async function openAll(files: File[]): Promise<void> {
  // Files may be dropped before the page has its engine.
  if (files.length === 0 || !source) return;
  const failures: string[] = [];
  const stopped = new AbortController();
  const tried = <T,>(promise: Promise<T>): Promise<T | null> =>
    promise.catch((e: unknown) => {
      if (!stopped.signal.aborted) failures.push(reason(e));
      return null;
    });
  let last: number | null = null;
  for (const file of files) {
    if (stopped.signal.aborted) break;
    const shown: Opening = { file, bytes: 0, doubt: null, stop: () => stopped.abort() };
    const doubt = await tried(source.tooLarge(file));
    if (doubt !== null && !(await isRead(shown, doubt))) continue;
    const read = (bytes: number) => (opening.value = { ...shown, bytes });
    read(0);
    const refused = await addTrace(file, read, stopped.signal);
    if (refused === null) continue;
    if (refused !== NOT_A_TRACE) failures.push(refused);
    last = (await tried(source.open(file, read, stopped.signal))) ?? last;
  }
  const all = last === null ? null : await tried(source.recordings());
  batch(() => {
    opening.value = null;
    trouble.value = failures.length > 0 ? failures.join(' ') : null;
    if (all === null || last === null) return;
    recordings.value = all;
    choose(last, null);
  });
}

const NOT_A_TRACE = '';

/**
 * Shows the operators of a trace of `torch.profiler` beside the shown recording. Returns null if that succeeds, or else why not; then the
 * trace may still have the memory events of a recording.
 */
async function addTrace(file: File, read: (bytes: number) => void, unwanted: AbortSignal): Promise<string | null> {
  if (!current.value || !(await isTrace(file))) return NOT_A_TRACE;
  try {
    await source.operators(shownFile.value, file, read, unwanted);
  } catch (e) {
    return unwanted.aborted ? NOT_A_TRACE : reason(e);
  }
  showNewOperators();
  return null;
}

/** Asks whether to read a file that may be too large. */
const isRead = (shown: Opening, why: string): Promise<boolean> =>
  new Promise((decide) => (opening.value = { ...shown, doubt: { why, decide } }));

export function OpeningDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = opening.value;
  const isShown = shown !== null;
  useEffect(() => {
    if (isShown) dialog.current?.showModal();
  }, [isShown]);
  if (!shown) return null;
  const { file, bytes, doubt, stop } = shown;
  const leave = () => (doubt ? doubt.decide(false) : stop());
  return (
    <dialog
      ref={dialog}
      class="opening"
      aria-labelledby="opening-title"
      onCancel={(e) => {
        e.preventDefault();
        leave();
      }}
    >
      <p id="opening-title">{doubt ? `${file.name} may be too large for a page.` : `Reading ${file.name}`}</p>
      {doubt ? (
        <p>
          {doubt.why} The command has no such limit: <code>vramscope view FILE</code>
        </p>
      ) : (
        // Without a value, the bar is indeterminate.
        <progress {...(bytes > 0 ? { value: bytes } : {})} max={file.size} aria-label="Reading progress" />
      )}
      <div class="opening-buttons">
        {doubt && (
          <button type="button" class="button" onClick={() => doubt.decide(true)}>
            Read anyway
          </button>
        )}
        <button type="button" class="button" onClick={leave}>
          {doubt ? 'Skip' : 'Cancel'}
        </button>
      </div>
    </dialog>
  );
}
