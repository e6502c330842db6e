// Chooses the shown file and device, and closes files.

import { batch } from '@preact/signals';
import { clamped } from '../numbers/scale';
import { reason } from '../text/reason';
import { other } from './compared';
import { forgetDevice } from './in-address';
import { against, moment } from './moment';
import { forgetNotes } from './notes';
import { firstDevice, isOfRanks, isToRead } from './files';
import { NO_FILE, chosenDevice, defaultView, file, view } from './place';
import { current, names, recordings, source } from './recordings';
import { selected } from './selection';
import { chooseInterval, interval } from './interval';
import { trouble } from './trouble';
import { axis, hasAxis, range, whole } from './window';

/** Shows a device from its first event to its last; null: the default device. */
export function choose(newFile: number, newDevice: number | null): void {
  const first = firstDevice(recordings.value?.[newFile]?.devices ?? []);
  batch(() => {
    file.value = newFile;
    chosenDevice.value = newDevice === first ? null : newDevice;
    forgetDevice();
    followDefaultView();
    if (!hasAxis()) axis.value = 'events';
  });
}

/** Without events there is no history, so the default view is the layout of memory. */
function followDefaultView(): void {
  if (!isOfRanks) defaultView.value = current.value?.events === 0 ? 'state' : 'overview';
}

/** The file that the server was asked to close; null: none. */
let closing: number | null = null;

/** Closes the shown file, and shows the first open one. */
export async function closeShown(): Promise<void> {
  const closed = file.value;
  // A second click while the first is pending.
  if (closed === closing) return;
  closing = closed;
  try {
    await source.close(closed);
    forgetFile(closed);
  } catch (e) {
    // Another page may have closed it.
    const all = await source.recordings().catch(() => null);
    if (all && !all[closed]) forgetFile(closed);
    else trouble.value = reason(e);
  } finally {
    closing = null;
  }
}

/** Removes a closed file from everything that is shown or compared. */
function forgetFile(closed: number): void {
  batch(() => {
    recordings.value = recordings.value?.map((one, of) => (of === closed ? null : one)) ?? null;
    names.value = new Map([...names.value].filter(([of]) => of !== closed));
    if (other.value?.[0] === closed) other.value = null;
    forgetNotes(closed);
    if (file.value !== closed) return;
    choose(firstOpen(), null);
    if (isOfRanks && file.value === NO_FILE) view.value = 'ranks';
  });
}

/** Returns the first open file. */
function firstOpen(): number {
  const first = recordings.value?.findIndex((one) => one !== null) ?? -1;
  return first < 0 ? NO_FILE : first;
}

/** Replaces values from the address that the open recordings do not have: files, devices, moments, allocations, ranges. */
export function clampToRecordings(): void {
  // A rank's values are checked when its recording is read.
  if (isToRead(file.value)) return;
  if (!current.value) choose(isOfRanks ? NO_FILE : firstOpen(), null);
  followDefaultView();
  const last = current.value?.events ?? 0;
  for (const at of [moment, against]) if (at.value !== null) at.value = Math.min(at.value, last);
  if (selected.value !== null && selected.value >= (current.value?.allocations ?? 0)) selected.value = null;
  if (interval.value) chooseInterval(interval.value);
  if (!hasAxis()) {
    // The range was in microseconds, and would now mean events.
    axis.value = 'events';
    range.value = null;
  }
  if (range.value) {
    const [from, to] = clamped(range.value, whole.value);
    range.value = from <= whole.value[0] && to >= whole.value[1] ? null : [from, to];
  }
}
