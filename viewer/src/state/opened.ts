// The open files, and which of a file's devices is shown where nobody chose one.

import { signal } from '@preact/signals';
import type { Ranks } from '../source/generated/ranks';
import type { Device, Mark, Recording } from '../source/source';

/** Whether the page is of all ranks of a job: then it has one more view, whose script the page names. */
export const isOfRanks = globalThis.document?.querySelector('link[rel="modulepreload"]') != null;

/** All ranks of the job, once they are known. The first files are theirs. */
export const ranks = signal<Ranks | null>(null);

/** The open files by position, null in the place of one that was closed. Null as long as they are being read. */
export const recordings = signal<(Recording | null)[] | null>(null);

/** Whether a file is that of a rank which was not read yet. */
export const isToRead = (at: number) => at >= 0 && at < (ranks.value?.ranks.length ?? 0) && !recordings.value?.[at];

/** What is looked at of a device to choose one. */
type Told = Pick<Device, 'device' | 'origin_us' | 'peaks' | 'marks'>;

/** The first request that failed on a device. */
export const firstFailure = ({ marks }: Pick<Device, 'marks'>): Mark | null => marks.find(({ kind }) => kind === 'oom') ?? null;

/**
 * The position of the device that is shown first: the one that ran out of memory, of several the first that did; else the GPU with the
 * highest allocated bytes.
 */
export function firstDevice(devices: readonly Told[]): number {
  if (devices.length < 2) return 0;
  const at = (device: Told, { time_us }: Mark) =>
    device.origin_us === null || time_us === null ? Infinity : device.origin_us + time_us;
  const failed = devices.flatMap((device, position) => {
    const failure = firstFailure(device);
    return failure ? [{ position, at: at(device, failure) }] : [];
  });
  // Sorting keeps the order of those that failed at the same time, or of whose time nothing is known.
  const [first] = failed.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at));
  if (first) return first.position;
  const peak = ({ device, peaks }: Told) => (device < 0 ? -1 : peaks.allocated.bytes);
  return devices.reduce((highest, device, position) => (peak(device) > peak(devices[highest] ?? device) ? position : highest), 0);
}
