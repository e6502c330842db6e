// The page's address follows its state, and the state follows the address when somebody edits it or goes back.

import { batch, effect } from '@preact/signals';
import type { Source } from '../source/source';
import { reason } from '../text/reason';
import { readAll, writtenAll } from './kept';
import { clampToRecordings } from './open';
import { place } from './place';
import { answerFrom, recordings, source } from './recordings';
import { trouble } from './trouble';

/** Begins with `from`: asks for the recordings, then follows the address. */
export async function start(from: Source): Promise<void> {
  answerFrom(from);
  read();
  window.addEventListener('hashchange', read);
  try {
    const all = await source.recordings();
    batch(() => {
      recordings.value = all;
      clampToRecordings();
      placeInAddress = place.value;
    });
  } catch (e) {
    trouble.value = reason(e);
  }
  effect(writeSoon);
}

/** The address as it was last read or written. */
let known = '';

function read(): void {
  // What was not written yet belongs to the entry of the history that was left.
  clearTimeout(writing);
  waiting = null;
  known = location.hash;
  batch(() => {
    readAll(location.hash.slice(1));
    if (recordings.value) clampToRecordings();
    placeInAddress = place.value;
  });
}

/** Browsers refuse an address that changes all the time: it follows when the hand rests. */
const REST_MS = 200;
let writing: ReturnType<typeof setTimeout> | undefined;
let waiting: { hash: string; place: string } | null = null;
/** The place that the address leads to: another place is a new entry of the browser's history. */
let placeInAddress = '';

function writeSoon(): void {
  const next = { hash: `#${writtenAll()}`, place: place.value };
  // The place that is left keeps what was done there last.
  if (next.place !== placeInAddress && waiting?.place === placeInAddress) write();
  waiting = next;
  clearTimeout(writing);
  writing = setTimeout(write, REST_MS);
}

function write(): void {
  if (!waiting) return;
  // Somebody has edited the address, and its event is still under way: what it says is newer.
  if (location.hash !== known) return read();
  if (waiting.place !== placeInAddress) history.pushState(null, '', waiting.hash);
  else if (waiting.hash !== location.hash) history.replaceState(null, '', waiting.hash);
  known = location.hash;
  placeInAddress = waiting.place;
  waiting = null;
}
