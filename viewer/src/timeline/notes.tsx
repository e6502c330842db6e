// The notes on the shown device: a list beside the timeline, and the field to write one.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from '../parts/controls';
import { rangeText, useCurrent } from '../parts/current';
import { download, fileName } from '../save/files';
import type { Device, Note } from '../source/source';
import {
  LONGEST_NOTE,
  MOST_NOTES,
  beginNote,
  deleteNote,
  keepNote,
  leaveNote,
  notedMoments,
  notes,
  pageWithNotes,
  showNote,
  shownNotes,
  typeNote,
  writing,
} from '../state/notes';
import { recording, source } from '../state/recordings';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

export function Notes() {
  const begin = useRef<HTMLButtonElement>(null);
  const left = useRef(false);
  const isWriting = writing.value !== null;
  // Leaving the field by a key returns the focus to the button that opened it.
  useEffect(() => {
    if (!isWriting && left.current) begin.current?.focus();
    left.current = false;
  }, [isWriting]);
  const shown = useCurrent();
  if (!shown) return null;
  const [from, to] = notedMoments.value;
  return (
    <section class="details-part notes" aria-label="Notes">
      <ul>
        {shownNotes.value.map((note) => (
          <Row key={noteKey(note)} note={note} device={shown.recording} />
        ))}
      </ul>
      {isWriting ? (
        <Field where={rangeText(from, to, shown.recording)} leaves={() => (left.current = true)} />
      ) : (
        <div class="notes-actions">
          <button ref={begin} type="button" class="link-button" onClick={() => beginNote(null)}>
            Write a note {from < to ? 'on this interval' : 'on this moment'}
          </button>
          {notes.value.length > 0 && source.page && (
            <button type="button" class="link-button" onClick={() => void save()}>
              Save page with notes
            </button>
          )}
        </div>
      )}
    </section>
  );
}

const noteKey = ({ from, to, text }: Note) => `${from}.${to} ${text}`;

function Row({ note, device }: { note: Note; device: Device }) {
  return (
    <li>
      <button type="button" class="link-button" onClick={() => showNote(note)}>
        {rangeText(note.from, note.to, device)}
      </button>
      <Button label={`Edit: ${note.text}`} onClick={() => beginNote(note)}>
        Edit
      </Button>
      <Button label={`Delete: ${note.text}`} onClick={() => deleteNote(note)}>
        Delete
      </Button>
      <p class="note-text">{note.text}</p>
    </li>
  );
}

function Field({ where, leaves }: { where: string; leaves: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const written = writing.value;
  const old = written?.old;
  useLayoutEffect(() => field.current?.focus(), [old]);
  if (old === null && notes.value.length >= MOST_NOTES)
    return (
      <p role="status">
        At most {MOST_NOTES} notes. <Button onClick={leaveNote}>Close</Button>
      </p>
    );
  const text = written?.text ?? '';
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        leaves();
        keepNote();
      }}
      onKeyDown={(e) => {
        if (e.key !== 'Escape') return;
        leaves();
        leaveNote();
      }}
    >
      <label>
        <span>Note {where.startsWith('event') ? `on ${where}` : where}</span>
        <input ref={field} type="text" maxLength={LONGEST_NOTE} value={text} onInput={(e) => typeNote(e.currentTarget.value)} />
      </label>
      <p class="quiet" role="status">
        {text.length >= LONGEST_NOTE && `At most ${LONGEST_NOTE} characters`}
      </p>
      <button type="submit" class="button">
        Save note
      </button>
      <Button onClick={leaveNote}>Cancel</Button>
    </form>
  );
}

async function save(): Promise<void> {
  try {
    const page = await pageWithNotes();
    if (page) download(page, fileName(recording.value?.name ?? '', 'notes', 'html'));
  } catch (e) {
    trouble.value = `Saving failed: ${reason(e)}`;
  }
}
