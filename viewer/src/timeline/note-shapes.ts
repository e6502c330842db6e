// Places notes above the plot; overlapping notes get separate rows.

import { computed } from '@preact/signals';
import { entryAt } from '../numbers/at';
import { xOf, type Viewport } from '../numbers/scale';
import type { Note, Picture } from '../source/source';
import { shownNotes } from '../state/notes';
import { placeOf, spanOnAxis } from '../draw/hit';

/** A note in plot pixels: its bar, the start of its text, and the room for it. */
export interface PlacedNote {
  note: Note;
  row: number;
  left: number;
  right: number;
  label: number;
  room: number;
}

/** Returns the row of each shown note: the first without an overlap. A note on a moment takes one event. */
const rows = computed(() => {
  const ends: number[] = [];
  return shownNotes.value.map(({ from, to }) => {
    const free = ends.findIndex((end) => end <= from);
    const row = free < 0 ? ends.length : free;
    ends[row] = Math.max(to, from + 1);
    return row;
  });
});

/** The number of rows. */
export const noteRows = computed(() => Math.max(0, ...rows.value.map((row) => row + 1)));

/** The least width of a bar, and the width from which a long text is clipped instead of drawn beside the bar. */
const BAR_LEAST = 3;
const TEXT_FROM = 40;
const GAP = 5;

function endsOf(picture: Picture, { from, to }: Note): readonly [number, number] {
  if (from < to) return spanOnAxis(picture, [from, to]);
  const at = placeOf(picture, from) ?? -Infinity;
  return [at, at];
}

/** Returns the notes that a viewport shows in the first `most` rows. */
export function placedNotes(picture: Picture, viewport: Viewport, most: number): PlacedNote[] {
  const placed: PlacedNote[] = [];
  const last = new Map<number, PlacedNote>();
  shownNotes.value.forEach((note, i) => {
    const row = entryAt(rows.value, i);
    const [from, to] = endsOf(picture, note);
    if (row >= most || to < viewport.from || from > viewport.to) return;
    const left = Math.max(xOf(viewport, from), 0);
    const right = Math.min(Math.max(xOf(viewport, to), left + BAR_LEAST), viewport.width);
    const before = last.get(row);
    // A text ends where the next note in its row begins.
    if (before) before.room = Math.min(before.room, left - GAP - before.label);
    const label = right - left < TEXT_FROM ? right + GAP : left + GAP;
    const one = { note, row, left, right, label, room: viewport.width - label };
    last.set(row, one);
    placed.push(one);
  });
  return placed;
}

/** Returns the note whose bar or text is at a pixel of a row, or null. */
export function noteAt(placed: readonly PlacedNote[], row: number, x: number): Note | null {
  const within = ({ row: of, left, right, label, room }: PlacedNote) =>
    of === row && x >= left - 1 && x <= Math.max(right, label + room);
  return placed.findLast(within)?.note ?? null;
}
