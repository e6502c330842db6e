// The user's notes on parts of recordings. They are stored in the address, and in a self-contained page that is saved with them.

import { batch, computed, signal } from '@preact/signals';
import type { Range } from '../numbers/scale';
import type { Note } from '../source/source';
import { inAddress, type AddressForm } from './in-address';
import { shownMoment } from './moment';
import { chooseMoment, showBetween } from './moves';
import { device, file, scope } from './place';
import { current, ofCurrent, recordings, source } from './recordings';
import { chooseInterval, interval } from './interval';

/** The most notes over all devices, and the most characters per note. */
export const MOST_NOTES = 100;
export const LONGEST_NOTE = 500;

/** Characters that would break the line or reorder the text: line ends, other controls, unpaired surrogates, direction marks. */
const NOT_SHOWN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

const clean = (text: string) => text.slice(0, LONGEST_NOTE).replace(NOT_SHOWN, ' ').trim();

/** One note, as `file.device.from.to text`. */
const LINE = /^(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15}) (.*)$/su;

/** Notes, one per line. */
export const noteLines: AddressForm<readonly Note[]> = {
  read: (text) =>
    text.split('\n', MOST_NOTES).flatMap((line) => {
      const [, ...parts] = LINE.exec(line) ?? [];
      const [file = 0, device = 0, from = 0, to = -1] = parts.slice(0, 4).map(Number);
      const told = clean(parts[4] ?? '');
      return from <= to && told !== '' ? [{ file, device, from, to, text: told }] : [];
    }),
  write: (notes) => notes.map(({ file, device, from, to, text }) => `${file}.${device}.${from}.${to} ${text}`).join('\n'),
};

/** The notes embedded in the page; those in its address have precedence. */
const carried = noteLines.read(noteLines.write(globalThis.carried?.notes ?? [])) ?? [];

export const notes = inAddress<readonly Note[], readonly Note[]>('notes', noteLines, carried);

/** Without notes the address needs no entry, except to record that the page's embedded notes were deleted. */
const setNotes = (to: readonly Note[]) => (notes.value = to.length === 0 && carried.length === 0 ? carried : to);

/** The shown device's notes within its events, by start. */
export const shownNotes = computed(() =>
  notes.value
    .filter((note) => note.file === file.value && note.device === device.value && note.to <= (current.value?.events ?? -1))
    .sort((a, b) => a.from - b.from || b.to - a.to),
);

/** The note being written: the note that it replaces, or null, and its text so far. */
const draft = signal<{ scope: string; old: Note | null; text: string } | null>(null);
export const writing = ofCurrent(draft);

/** Begins a note on the chosen interval, or else on the moment; or begins to change a note. */
export const beginNote = (old: Note | null) => (draft.value = { scope: scope.value, old, text: old?.text ?? '' });
export const leaveNote = () => (draft.value = null);

export function typeNote(text: string): void {
  if (writing.value) draft.value = { ...writing.value, text };
}

/** The moments of the note being written, or of a new one. */
export const notedMoments = computed<Range>(() => {
  const old = writing.value?.old;
  return old ? [old.from, old.to] : (interval.value ?? [shownMoment.value, shownMoment.value]);
});

/** Saves the note being written; a note without text is deleted. */
export function keepNote(): void {
  const written = writing.value;
  if (!written) return;
  const [from, to] = notedMoments.value;
  const text = clean(written.text);
  const rest = notes.value.filter((note) => note !== written.old);
  const isKept = text !== '' && rest.length < MOST_NOTES;
  batch(() => {
    setNotes(isKept ? [...rest, { file: file.value, device: device.value, from, to, text }] : rest);
    leaveNote();
  });
}

export const deleteNote = (deleted: Note) => setNotes(notes.value.filter((note) => note !== deleted));

/** Shows the part of the recording that a note is on, and chooses it. */
export function showNote({ from, to }: Note): void {
  if (from === to) {
    interval.value = null;
    chooseMoment(from);
  } else {
    chooseInterval([from, to]);
    showBetween([from, to]);
  }
}

/** Removes the notes on a closed file. */
export const forgetNotes = (closed: number) => setNotes(notes.value.filter((note) => note.file !== closed));

/** Returns the notes on some files, renumbered for a page with only these files. */
const notesOn = (files: readonly number[]): readonly Note[] =>
  notes.value.flatMap((note) => {
    const at = files.indexOf(note.file);
    return at < 0 ? [] : [{ ...note, file: at }];
  });

/** Makes a self-contained page of the open files, with the notes in it. */
export function pageWithNotes(): Promise<Blob> | null {
  const open = (recordings.value ?? []).flatMap((one, at) => (one ? [at] : []));
  return source.page?.(open, notesOn) ?? null;
}
