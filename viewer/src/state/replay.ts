// Replays of the recording under other allocator settings and on other devices, and the chosen setting.

import { computed, signal } from '@preact/signals';
import { reason } from '../text/reason';
import type { KnownGpu, ReplayRequest } from '../source/source';
import { asked, onceEach } from './asked';
import { anyText, decimal, inAddress, inAddressOfDevice, wholeNumber } from './in-address';
import { device, file } from './place';
import { current, source } from './recordings';
import { trouble } from './trouble';

/** The row of the what-if table whose line is drawn over the timeline; null: none. */
export const setting = inAddressOfDevice('setting', wholeNumber, null);

/** The user's setting, as for PYTORCH_CUDA_ALLOC_CONF; null: settings that often help are tried. */
export const ownSetting = inAddress('conf', anyText, null);
/** The GPU by name, or else the device's size in GiB; both null: as recorded. */
export const gpu = inAddress('gpu', anyText, null);
export const deviceGib = inAddress('capacity', decimal, null);
/** MiB of the device unavailable to the allocator. */
export const overheadMib = inAddress('overhead', wholeNumber, null);

/** No changes to the program. */
export const NO_MARKS: readonly string[] = [];
/** The changes to the program whose effect is estimated, such as `layer:h.*.mlp=checkpoint`. */
export const marks = inAddressOfDevice<readonly string[], readonly string[]>(
  'marks',
  { read: (text) => text.split(';').filter(Boolean), write: (all) => all.join(';') },
  NO_MARKS,
);

/** The GPUs known by name; null until requested. */
export const knownGpus = signal<readonly KnownGpu[] | null>(null);
let gpusAsked = false;

/** Requests the GPUs once; again after a failure. */
export async function needGpus(): Promise<void> {
  if (gpusAsked) return;
  gpusAsked = true;
  try {
    knownGpus.value = await source.ask(file.value, 0, { question: 'gpus' });
  } catch (e) {
    gpusAsked = false;
    throw e;
  }
}

const GIB = 2 ** 30;
const MIB = 2 ** 20;

/** Returns the bytes of the device unavailable to the allocator. */
export const overheadBytes = () => (overheadMib.value ?? 0) * MIB;

/** Bytes of the chosen device; null: none is chosen; undefined: its name is unknown, perhaps not yet loaded. */
export const capacityBytes = computed<number | null | undefined>(() => {
  if (gpu.value !== null) return knownGpus.value?.find(({ name }) => name === gpu.value)?.bytes;
  return deviceGib.value === null ? null : Math.round(deviceGib.value * GIB);
});

/** The replay to request; null if the device is unknown. */
export const replayQuery = computed<ReplayRequest | null>(() => {
  const capacity = capacityBytes.value;
  if (capacity === undefined) return null;
  return { conf: ownSetting.value, capacity, overhead: capacity === null ? 0 : overheadBytes(), find_capacity: false };
});

export const replayOf = onceEach((file: number, device: number, query: ReplayRequest, unwanted: AbortSignal) =>
  source.ask(file, device, { question: 'replay', ...query }, unwanted),
);

export const nameOf = (conf: string) => (conf === '' ? 'the defaults' : conf);

/** An extra line over the timeline: the reserved bytes under another setting. */
export interface Overlay {
  label: string;
  /** [moment, bytes] at each change, in order. */
  points: readonly (readonly [number, number])[];
}

const isChosen = computed(() => setting.value !== null);

const replay = asked((unwanted) => {
  if (!isChosen.value || !current.value?.events) return null;
  if (replayQuery.value) return replayOf(file.value, device.value, replayQuery.value, unwanted);
  // This runs again once the sizes of GPUs are known.
  needGpus().catch((e: unknown) => (trouble.value = reason(e)));
  return null;
});

/** The line of the chosen setting, in every view. */
export const overlay = computed<Overlay | null>(() => {
  const at = setting.value;
  if (at === null) return null;
  const [row, points] = [replay.value?.device.what_if[at], replay.value?.lines[at]];
  return row && points ? { label: `reserved with ${nameOf(row.conf)}`, points } : null;
});
