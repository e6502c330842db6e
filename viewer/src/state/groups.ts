// The groups for coloring, of the devices that needed them so far.

import { signal } from '@preact/signals';
import type { By, Groups } from '../source/source';
import type { ColorBy } from './grouping';
import { source } from './recordings';

/** Per grouping, the groups of devices by their `scope`. */
const known = signal<ReadonlyMap<string, ReadonlyMap<string, Groups>>>(new Map());

/** Whether the groups come from the source; categories, steps, sizes and allocations have numbers already. */
const isAsked = (by: ColorBy): by is By => by !== 'category' && by !== 'step' && by !== 'size' && by !== 'allocation';

/** Returns the known groups by device, in the order in which they were requested. */
export const groupsBy = (by: ColorBy): ReadonlyMap<string, Groups> | undefined => known.value.get(by);

const asked = new Set<string>();

/** Requests the groups of a device once; again after a failure. */
export async function needGroups(file: number, device: number, by: ColorBy): Promise<void> {
  const scope = `${file}.${device}`;
  const key = `${scope} ${by}`;
  if (!isAsked(by) || asked.has(key)) return;
  asked.add(key);
  try {
    const got = await source.ask(file, device, { question: 'groups', by });
    known.value = new Map(known.value).set(by, new Map(known.value.get(by)).set(scope, got));
  } catch (e) {
    asked.delete(key);
    throw e;
  }
}
