// The recording under other settings of the allocator and on other devices, and the chosen one of these settings.

import { computed, signal } from '@preact/signals';
import { reason } from '../text/reason';
import type { KnownGpu, ReplayQuery } from '../source/source';
import { asked, onceEach } from './asked';
import { anyText, decimal, kept, keptOfDevice, wholeNumber } from './kept';
import { device, file } from './place';
import { current, source } from './recordings';
import { trouble } from './trouble';

/** The row of the what-if table whose line is drawn over the timeline; null: none. */
export const setting = keptOfDevice('setting', wholeNumber, null);

/** A setting of the user's own, as for PYTORCH_CUDA_ALLOC_CONF; null: those that often help are tried. */
export const ownSetting = kept('conf', anyText, null);
/** The GPU, by its name, or else the GiB of the device; both null: as the recording shows it. */
export const gpu = kept('gpu', anyText, null);
export const deviceGib = kept('capacity', decimal, null);
/** MiB of the device that others take. */
export const overheadMib = kept('overhead', wholeNumber, null);

/** The GPUs that are known by name; null until they are asked for. */
export const knownGpus = signal<readonly KnownGpu[] | null>(null);
let gpusAsked = false;

/** Asks for the GPUs once; again where that failed. */
export async function needGpus(): Promise<void> {
  if (gpusAsked) return;
  gpusAsked = true;
  try {
    knownGpus.value = await source.gpus(file.value);
  } catch (e) {
    gpusAsked = false;
    throw e;
  }
}

const GIB = 2 ** 30;
const MIB = 2 ** 20;

/** Bytes that others take of the device. */
export const overheadBytes = () => (overheadMib.value ?? 0) * MIB;

/** Bytes of the device that was named; null: none was, undefined: its name is not known, or not yet. */
export const capacityBytes = computed<number | null | undefined>(() => {
  if (gpu.value !== null) return knownGpus.value?.find(({ name }) => name === gpu.value)?.bytes;
  return deviceGib.value === null ? null : Math.round(deviceGib.value * GIB);
});

/** What is replayed; null where the device is not known. */
export const replayQuery = computed<ReplayQuery | null>(() => {
  const capacity = capacityBytes.value;
  if (capacity === undefined) return null;
  return { conf: ownSetting.value, capacity, overhead: capacity === null ? 0 : overheadBytes(), find_capacity: false };
});

export const replayOf = onceEach((file: number, device: number, query: ReplayQuery, unwanted: AbortSignal) =>
  source.replay(file, device, query, unwanted),
);

export const nameOf = (conf: string) => (conf === '' ? 'the defaults' : conf);

/** An extra line over the timeline: the reserved bytes that a setting would have had. */
export interface Overlay {
  label: string;
  /** [moment, bytes] at each change, in order. */
  points: readonly (readonly [number, number])[];
}

const isChosen = computed(() => setting.value !== null);

const replay = asked((unwanted) => {
  if (!isChosen.value || !current.value?.events) return null;
  if (replayQuery.value) return replayOf(file.value, device.value, replayQuery.value, unwanted);
  // Its size is known then, and this is asked again.
  needGpus().catch((e: unknown) => (trouble.value = reason(e)));
  return null;
});

/** The line of the chosen setting, whichever view is shown. */
export const overlay = computed<Overlay | null>(() => {
  const at = setting.value;
  if (at === null) return null;
  const [row, points] = [replay.value?.device.what_if[at], replay.value?.lines[at]];
  return row && points ? { label: `reserved with ${nameOf(row.conf)}`, points } : null;
});
