import { NONE, type Device, type Names } from '../source/source';
import { device, file } from '../state/place';
import { current, names } from '../state/recordings';
import { count } from '../text/units';

export interface Current {
  file: number;
  device: number;
  /** Names file and device; `useAnswer` keeps answers of different scopes apart. */
  scope: string;
  recording: Device;
  names: Names | null;
}

/** Returns the shown device, and its file's names once they arrive; null until a file is open. */
export function useCurrent(): Current | null {
  const number = file.value;
  const shown = current.value;
  if (!shown) return null;
  return {
    file: number,
    device: device.value,
    scope: `${number}.${device.value}`,
    recording: shown,
    names: names.value.get(number) ?? null,
  };
}

/** Names the moment by the event before it: `the start`, `event 12,344`, `the end`. */
export function momentName(moment: number, recording: Device): string {
  if (recording.events === 0) return 'the snapshot';
  if (moment === 0) return 'the start';
  return moment === recording.events ? 'the end' : `event ${count(moment - 1)}`;
}

/** Formats the events between two moments: `12 to 45`. A moment follows its event. */
export function eventsText(from: number, to: number): string {
  if (to <= from) return 'none';
  return to - from === 1 ? count(from) : `${count(from)} to ${count(to - 1)}`;
}

/** Formats a lifetime from its first moment on: `event 12 to 45`; `to` is null or NONE if it never ends. */
export function lifeText(from: number, to: number | null): string {
  const start = from === 0 ? 'before recording' : `event ${count(from - 1)}`;
  return to === null || to === NONE ? `${start} to the end` : `${start} to ${count(to - 1)}`;
}

/** Formats `at the start`, `after event 12,344`, `at the end`. */
export function momentText(moment: number, recording: Device): string {
  const name = momentName(moment, recording);
  return `${name.startsWith('event') ? 'after' : 'at'} ${name}`;
}

/** Formats the events between two moments, `events 12 to 45`; for equal moments `after event 12`. */
export const rangeText = (from: number, to: number, recording: Device): string =>
  from === to ? momentText(from, recording) : `event${to - from === 1 ? '' : 's'} ${eventsText(from, to)}`;
