// The groups by which pictures are coloured, of the devices of which they were needed so far.

import { signal } from '@preact/signals';
import type { By, Groups } from '../source/source';
import type { ColorBy } from './grouping';
import { source } from './recordings';

/** Of each way to group, the groups of devices by their `scope`. */
const known = signal<ReadonlyMap<string, ReadonlyMap<string, Groups>>>(new Map());

/** Whether the groups must be asked for; categories, steps and sizes are known as numbers, and allocations are. */
const isAsked = (by: ColorBy): by is By => by !== 'category' && by !== 'step' && by !== 'size' && by !== 'allocation';

/** The groups of all devices of which they are known, in the order in which they were needed. */
export const groupsBy = (by: ColorBy): ReadonlyMap<string, Groups> | undefined => known.value.get(by);

const asked = new Set<string>();

/** Asks for the groups of a device once; again where that failed. */
export async function needGroups(file: number, device: number, by: ColorBy): Promise<void> {
  const scope = `${file}.${device}`;
  const key = `${scope} ${by}`;
  if (!isAsked(by) || asked.has(key)) return;
  asked.add(key);
  try {
    const got = await source.groups(file, device, by);
    known.value = new Map(known.value).set(by, new Map(known.value.get(by)).set(scope, got));
  } catch (e) {
    asked.delete(key);
    throw e;
  }
}
