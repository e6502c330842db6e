// The open recordings, and the source of answers about them.

import { computed, signal, type ReadonlySignal } from '@preact/signals';
import type { Source } from '../source/questions';
import type { Device, Names, Recording } from '../source/source';
import { recordings } from './files';
import { device, file, scope } from './place';

export { recordings };

/** The source of answers; set once, before the page is rendered. */
export let source: Source;
export function answerFrom(from: Source): void {
  source = from;
}

/** Names of frames and stacks, by file, for the files shown so far. */
export const names = signal<ReadonlyMap<number, Names>>(new Map());

/** The shown file, the shown device, and the file's names. */
export const recording = computed(() => recordings.value?.[file.value] ?? null);
export const current = computed(() => recording.value?.devices[device.value] ?? null);
export const currentNames = computed(() => names.value.get(file.value));

/** Returns the value of a signal if it belongs to the shown device, else null. */
export const ofCurrent = <T extends { scope: string }>(held: ReadonlySignal<T | null>): ReadonlySignal<T | null> =>
  computed(() => (held.value?.scope === scope.value ? held.value : null));

const asked = new Set<number>();
const askedMeaning = new Set<string>();

/** Requests the categories of a device once, if unknown; again after a failure. */
export async function needMeaning(of: number, at: number): Promise<void> {
  const key = `${of}.${at}`;
  const device = recordings.value?.[of]?.devices[at];
  if (!device || device.purposes || askedMeaning.has(key)) return;
  askedMeaning.add(key);
  try {
    const meaning = await source.meaning(of, at);
    const told = (one: Device, i: number) => (i === at ? { ...one, ...meaning } : one);
    const changed = (one: Recording | null, i: number) => (one && i === of ? { ...one, devices: one.devices.map(told) } : one);
    recordings.value = recordings.value?.map(changed) ?? null;
  } catch (e) {
    askedMeaning.delete(key);
    throw e;
  }
}

/** Requests the names of a file once; again after a failure. */
export async function needNames(of: number): Promise<void> {
  if (asked.has(of)) return;
  asked.add(of);
  try {
    const got = await source.names(of);
    names.value = new Map(names.value).set(of, got);
  } catch (e) {
    asked.delete(of);
    throw e;
  }
}
