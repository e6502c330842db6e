// The page's address follows what is shown, and what is shown follows the address when it is edited or the user goes back.

import { batch, effect } from '@preact/signals';
import type { Source } from '../source/questions';
import { reason } from '../text/reason';
import { readAll, writtenAll } from './kept';
import { clampToRecordings } from './open';
import { place } from './place';
import { answerFrom, recordings, source } from './recordings';
import { trouble } from './trouble';

/** Takes answers from `from`: asks for the recordings, then keeps address and state the same. */
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
    placeInAddress = place.value;
  });
}

/** Milliseconds without a change before the address is written: browsers refuse addresses that change all the time. */
const REST_MS = 200;
let writing: ReturnType<typeof setTimeout> | undefined;
let waiting: { hash: string; place: string } | null = null;
/** The place that the address names. A change of place becomes a new entry of the browser's history. */
let placeInAddress = '';

function writeSoon(): void {
  // In a notebook the page has no address of its own, and browsers refuse to give it one.
  if (location.protocol === 'about:') return;
  const next = { hash: `#${writtenAll()}`, place: place.value };
  // The entry of the place that is left gets what was changed there last.
  if (next.place !== placeInAddress && waiting?.place === placeInAddress) write();
  waiting = next;
  clearTimeout(writing);
  writing = setTimeout(write, REST_MS);
}

function write(): void {
  if (!waiting) return;
  // The address was edited, and its event has not arrived yet: what it says is newer than what is written here.
  if (location.hash !== known) return read();
  if (waiting.place !== placeInAddress) history.pushState(null, '', waiting.hash);
  else if (waiting.hash !== location.hash) history.replaceState(null, '', waiting.hash);
  known = location.hash;
  placeInAddress = waiting.place;
  waiting = null;
}
