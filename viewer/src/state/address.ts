// The page's address follows what is shown, and what is shown follows the address when it is edited or the user goes back.

import { batch, effect } from '@preact/signals';
import type { Source } from '../source/questions';
import type { Note } from '../source/source';
import { reason } from '../text/reason';
import { readAll, writtenAll } from './kept';
import { isMoving } from './moves';
import { notes } from './notes';
import { clampToRecordings } from './open';
import { isOfRanks, ranks } from './opened';
import { place } from './place';
import { readWhatIsShown } from './ranks';
import { answerFrom, recordings, source } from './recordings';
import { selected } from './selection';
import { trouble } from './trouble';
import { byteRange, range } from './window';

/** Takes answers from `from`: asks for the recordings, then keeps address and state the same. */
export async function start(from: Source): Promise<void> {
  answerFrom(from);
  if (isOfRanks) {
    try {
      // The address names files by their ranks.
      ranks.value = await source.ranks();
    } catch (e) {
      trouble.value = reason(e);
    }
  }
  read();
  window.addEventListener('hashchange', read);
  try {
    const all = await source.recordings();
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

/** The address (from its `#` on) as it was last read or written. */
let known = '';

function read(): void {
  // A change that was not written yet belongs to the entry of the browser's history that was left.
  clearTimeout(writing);
  waiting = null;
  known = location.hash;
  batch(() => {
    readAll(location.hash.slice(1));
    if (recordings.value) clampToRecordings();
    inAddress = nowShown();
  });
}

/** Milliseconds without a change before the address is written: browsers refuse addresses that change all the time. */
const REST_MS = 200;
let writing: ReturnType<typeof setTimeout> | undefined;
let waiting: { hash: string; shown: Shown } | null = null;

/** What becomes a new entry of the browser's history where it changes, so that going back undoes it. */
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

/** What the address names. */
let inAddress: Shown = { place: '', selected: null, zoom: '', notes: [] };
/** Zooms that follow each other within so many milliseconds are one, such as those of keys and of a wheel that is turned on and on. */
const ONE_ZOOM_MS = 1000;
/** When the last entry was made that differs from the one before by its zoom alone. */
let zoomed = -Infinity;

/** Whether what is shown now deserves an entry of its own. */
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
  // In a notebook the page has no address of its own, and browsers refuse to give it one.
  if (location.protocol === 'about:') return;
  const next = { hash: `#${writtenAll()}`, shown: nowShown() };
  // The entry of the place that is left gets what was changed there last.
  if (next.shown.place !== inAddress.place && waiting?.shown.place === inAddress.place) write();
  waiting = next;
  clearTimeout(writing);
  // What is chosen and what is then shown of it are one entry, however long the answer takes.
  if (!isMoving.value) writing = setTimeout(write, REST_MS);
}

function write(): void {
  if (!waiting) return;
  // The address was edited, and its event has not arrived yet: what it says is newer than what is written here.
  if (location.hash !== known) return read();
  if (waiting.hash !== location.hash) {
    if (isNew(waiting.shown)) history.pushState(null, '', waiting.hash);
    else history.replaceState(null, '', waiting.hash);
  }
  known = location.hash;
  inAddress = waiting.shown;
  waiting = null;
}
