import { useEffect } from 'preact/hooks';
import type { Device, Names } from '../source/source';
import { current, device, file, names, needNames } from '../state';
import { count } from '../text/units';

export interface Current {
  file: number;
  device: number;
  /** For `useAnswer`: changes with the recording. */
  scope: string;
  recording: Device;
  names: Names | null;
}

/** The device that is shown, and the names of its file once they are here; null before any is open. */
export function useCurrent(): Current | null {
  const number = file.value;
  const shown = current.value;
  useEffect(() => {
    if (shown) void needNames(number);
  }, [number, shown !== null]);
  if (!shown) return null;
  return {
    file: number,
    device: device.value,
    scope: `${number}.${device.value}`,
    recording: shown,
    names: names.value.get(number) ?? null,
  };
}

/** `the start`, `after event 12,344`, `the end`. */
export function momentText(moment: number, recording: Device): string {
  if (moment === 0) return 'the start';
  if (moment === recording.events) return `the end, after event ${count(moment - 1)}`;
  return `after event ${count(moment - 1)}`;
}
