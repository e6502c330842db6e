// Keeps the page's address and its state in sync, in both directions.

import { batch, effect } from '@preact/signals';
import type { Source } from '../source/questions';
import type { Note } from '../source/source';
import { reason } from '../text/reason';
import { readAll, writtenAll } from './in-address';
import { isMoving } from './moves';
import { notes } from './notes';
import { clampToRecordings } from './choice';
import { isOfRanks, ranks, readProgress } from './files';
import { place } from './place';
import { readWhatIsShown } from './ranks';
import { answerFrom, recordings, source } from './recordings';
import { selected } from './selection';
import { trouble } from './trouble';
import { byteRange, range } from './window';

/** Sets the source, requests the recordings, then keeps address and state in sync. */
export async function start(from: Source): Promise<void> {
  answerFrom(from);
  if (isOfRanks) {
    try {
      // The address names a job's files by rank.
      ranks.value = await source.ranks();
    } catch (e) {
      trouble.value = reason(e);
    }
  }
  read();
  window.addEventListener('hashchange', read);
  try {
    const all = await source.recordings((progress) => (readProgress.value = progress));
    batch(() => {
      recordings.value = all;
      clampToRecordings();
      inAddress = nowShown();
    });
  } catch (e) {
    trouble.value = reason(e);
  }
  if (isOfRanks) readWhatIsShown();
  effect(writeSoon);
}

/** The address (from its `#` on) as last read or written. */
let known = '';

function read(): void {
  // A pending change belongs to the history entry that was left.
  clearTimeout(writing);
  waiting = null;
  known = location.hash;
  batch(() => {
    readAll(location.hash.slice(1));
    if (recordings.value) clampToRecordings();
    inAddress = nowShown();
  });
}

/** Milliseconds without a change before the address is written; browsers limit the rate of address changes. */
const REST_MS = 200;
let writing: ReturnType<typeof setTimeout> | undefined;
let waiting: { hash: string; shown: Shown } | null = null;

/** The state whose changes create a new history entry, so that Back undoes them. */
interface Shown {
  place: string;
  selected: number | null;
  zoom: string;
  notes: readonly Note[];
}

const nowShown = (): Shown => ({
  place: place.value,
  selected: selected.value,
  zoom: [range.value, byteRange.value].join(' '),
  notes: notes.value,
});

/** The state in the current address. */
let inAddress: Shown = { place: '', selected: null, zoom: '', notes: [] };
/** Zooms within this many milliseconds of each other, as of keys or the wheel, share a history entry. */
const ONE_ZOOM_MS = 1000;
/** The time of the last history entry that differs from the previous one only in its zoom. */
let zoomed = -Infinity;

/** Whether the current state needs a new history entry. */
function isNew({ place, selected, zoom, notes }: Shown): boolean {
  if (place !== inAddress.place || selected !== inAddress.selected || notes !== inAddress.notes) {
    zoomed = -Infinity;
    return true;
  }
  if (zoom === inAddress.zoom) return false;
  const now = performance.now();
  const goesOn = now - zoomed < ONE_ZOOM_MS;
  zoomed = now;
  return !goesOn;
}

function writeSoon(): void {
  // In a notebook the page has no address of its own, and browsers refuse to set one.
  if (location.protocol === 'about:') return;
  const next = { hash: `#${writtenAll()}`, shown: nowShown() };
  // The last changes at the place that is left belong to its history entry.
  if (next.shown.place !== inAddress.place && waiting?.shown.place === inAddress.place) write();
  waiting = next;
  clearTimeout(writing);
  // A choice and the view that it leads to share one history entry, however long the answer takes.
  if (!isMoving.value) writing = setTimeout(write, REST_MS);
}

function write(): void {
  if (!waiting) return;
  // The address was edited, and its event has not arrived yet: the edit is newer than the pending write.
  if (location.hash !== known) return read();
  if (waiting.hash !== location.hash) {
    if (isNew(waiting.shown)) history.pushState(null, '', waiting.hash);
    else history.replaceState(null, '', waiting.hash);
  }
  known = location.hash;
  inAddress = waiting.shown;
  waiting = null;
}
