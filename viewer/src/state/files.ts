// The open files, and the default device of a file.

import { signal } from '@preact/signals';
import type { Progress } from '../source/engine';
import type { Ranks } from '../source/source';
import type { Device, Marker, Recording } from '../source/source';

/** Whether the page shows all ranks of a job: then it has another view, whose script the page names. */
export const isOfRanks = globalThis.document?.querySelector('link[rel="modulepreload"]') != null;

/** All ranks of the job, once known. The first files are theirs. */
export const ranks = signal<Ranks | null>(null);

/** The open files by position, null for a closed one. Null while they are being read. */
export const recordings = signal<(Recording | null)[] | null>(null);

/** How far the files are read, while `recordings` is null; null before it is known. */
export const readProgress = signal<Progress | null>(null);

/** Whether a file belongs to a rank that has not been read yet. */
export const isToRead = (at: number) => at >= 0 && at < (ranks.value?.ranks.length ?? 0) && !recordings.value?.[at];

/** The fields of a device that decide the default. */
type Told = Pick<Device, 'device' | 'origin_us' | 'peaks' | 'markers'>;

/** Returns the first failed request on a device, or null. */
export const firstFailure = ({ markers }: Pick<Device, 'markers'>): Marker | null =>
  markers.find(({ kind }) => kind === 'oom') ?? null;

/**
 * Returns the position of the default device: the first that ran out of memory, or else the GPU with the highest peak of allocated bytes.
 */
export function firstDevice(devices: readonly Told[]): number {
  if (devices.length < 2) return 0;
  const at = (device: Told, { time_us }: Marker) =>
    device.origin_us === null || time_us === null ? Infinity : device.origin_us + time_us;
  const failed = devices.flatMap((device, position) => {
    const failure = firstFailure(device);
    return failure ? [{ position, at: at(device, failure) }] : [];
  });
  // The sort is stable, for devices that failed at the same or at an unknown time.
  const [first] = failed.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at));
  if (first) return first.position;
  const peak = ({ device, peaks }: Told) => (device < 0 ? -1 : peaks.allocated.bytes);
  return devices.reduce((highest, device, position) => (peak(device) > peak(devices[highest] ?? device) ? position : highest), 0);
}
