// The recordings of a job's ranks; each is read when it is first shown.

import { batch, effect, signal } from '@preact/signals';
import { reason } from '../text/reason';
import { other } from './compared';
import { inAddress, oneOf } from './in-address';
import { clampToRecordings } from './choice';
import { isToRead } from './files';
import { overlaid, toOverlay } from './overlaid';
import { NO_FILE, file, view } from './place';
import { recordings, source } from './recordings';
import { trouble } from './trouble';

/** The kinds of bytes that can be shown for all ranks. */
export const COUNTERS = ['allocated', 'reserved'] as const;
export type Counter = (typeof COUNTERS)[number];
export const counter = inAddress('bytesof', oneOf(COUNTERS), 'allocated');

/** The orders of ranks. */
export const ORDERS = ['rank', 'kind', 'peak'] as const;
export type Order = (typeof ORDERS)[number];
export const order = inAddress('rankorder', oneOf(ORDERS), 'rank');

/** The position of the rank whose recording is being read; null: none. */
export const reading = signal<number | null>(null);

/** Starts to read recordings on demand: the shown rank's, and those that it is compared with. */
export function readWhatIsShown(): void {
  effect(() => {
    if (view.value === 'ranks' || recordings.value === null || reading.value !== null) return;
    const beside = view.value === 'compare' ? (other.value?.[0] ?? NO_FILE) : NO_FILE;
    const over = view.value === 'steps' ? [...(overlaid.value ?? []).map((step) => step.file), toOverlay.value ?? NO_FILE] : [];
    const wanted = [file.value, beside, ...over].find(isToRead);
    if (wanted !== undefined) void read(wanted);
  });
}

async function read(rank: number): Promise<void> {
  reading.value = rank;
  try {
    const recording = await source.readRank(rank);
    batch(() => {
      recordings.value = recordings.value?.map((one, at) => (at === rank ? recording : one)) ?? null;
      clampToRecordings();
    });
  } catch (e) {
    batch(() => {
      trouble.value = reason(e);
      if (toOverlay.value === rank) toOverlay.value = null;
      const steps = overlaid.value?.filter((step) => step.file !== rank) ?? [];
      overlaid.value = steps.length > 0 ? steps : null;
      if (file.value === rank) {
        file.value = NO_FILE;
        view.value = 'ranks';
      } else if (other.value?.[0] === rank) other.value = null;
    });
  } finally {
    reading.value = null;
  }
}

/** Shows a rank beside a usual one, which comes first: the changes are those that make the rank different. */
export function compareRanks(rank: number, usual: number): void {
  batch(() => {
    openRank(usual);
    other.value = [rank, 0];
    view.value = 'compare';
  });
}

/** Shows the recording of a rank. */
export function openRank(rank: number): void {
  batch(() => {
    trouble.value = null;
    file.value = rank;
    view.value = 'overview';
  });
}
