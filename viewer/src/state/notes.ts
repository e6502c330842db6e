// Notes that the user wrote on parts of recordings. They stand in the address, and in a self-contained page that is saved with them.

import { batch, computed, signal } from '@preact/signals';
import type { Range } from '../numbers/scale';
import type { Note } from '../source/source';
import { kept, type AddressForm } from './kept';
import { shownMoment } from './moment';
import { chooseMoment, showBetween } from './moves';
import { device, file, scope } from './place';
import { current, ofCurrent, recordings, source } from './recordings';
import { chooseSpan, span } from './span';

/** The most notes of all devices together, and the most characters of one. */
export const MOST_NOTES = 100;
export const LONGEST_NOTE = 500;

/** What would leave its line, or turn the text around it: line ends, other controls, halves of characters, directions. */
const NOT_SHOWN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

const clean = (text: string) => text.slice(0, LONGEST_NOTE).replace(NOT_SHOWN, ' ').trim();

/** One note, as `file.device.from.to text`. */
const LINE = /^(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15}) (.*)$/su;

/** Notes, a line each. */
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

/** Notes that the page carries; what its address says goes first. */
const carried = noteLines.read(noteLines.write(globalThis.carried?.notes ?? [])) ?? [];

export const notes = kept<readonly Note[], readonly Note[]>('notes', noteLines, carried);

/** Without notes there is nothing to say of them in the address, but that those are gone which the page carries. */
const setNotes = (to: readonly Note[]) => (notes.value = to.length === 0 && carried.length === 0 ? carried : to);

/** Those of the shown device that it has the events of, by where they begin. */
export const shownNotes = computed(() =>
  notes.value
    .filter((note) => note.file === file.value && note.device === device.value && note.to <= (current.value?.events ?? -1))
    .sort((a, b) => a.from - b.from || b.to - a.to),
);

/** A note that is being written: the one that it will replace, or null, and its text so far. */
const draft = signal<{ scope: string; old: Note | null; text: string } | null>(null);
export const writing = ofCurrent(draft);

/** Begins to write a note on the chosen span, or on the moment where none is chosen; or to change one. */
export const beginNote = (old: Note | null) => (draft.value = { scope: scope.value, old, text: old?.text ?? '' });
export const leaveNote = () => (draft.value = null);

export function typeNote(text: string): void {
  if (writing.value) draft.value = { ...writing.value, text };
}

/** The moments that the note is on which is being written, or would be. */
export const notedMoments = computed<Range>(() => {
  const old = writing.value?.old;
  return old ? [old.from, old.to] : (span.value ?? [shownMoment.value, shownMoment.value]);
});

/** Keeps what was written; a note without text is deleted. */
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
    span.value = null;
    chooseMoment(from);
  } else {
    chooseSpan([from, to]);
    showBetween([from, to]);
  }
}

/** Forgets the notes on a file that was closed. */
export const forgetNotes = (closed: number) => setNotes(notes.value.filter((note) => note.file !== closed));

/** The notes on some files, for a page in which these are all. */
const notesOn = (files: readonly number[]): readonly Note[] =>
  notes.value.flatMap((note) => {
    const at = files.indexOf(note.file);
    return at < 0 ? [] : [{ ...note, file: at }];
  });

/** A self-contained page of what is open, with the notes in it. */
export function pageWithNotes(): Promise<Blob> | null {
  const open = (recordings.value ?? []).flatMap((one, at) => (one ? [at] : []));
  return source.page?.(open, notesOn) ?? null;
}
