// What allocations are coloured and grouped by.

import { computed } from '@preact/signals';
import type { By, CallsOf, Device } from '../source/source';
import { flag, kept, oneOf, unless } from './kept';
import { current } from './recordings';

/** What colours stand for: groups, or each allocation for itself. */
export const COLORS = [
  'category',
  'line',
  'function',
  'file',
  'module',
  'layer',
  'step',
  'stack',
  'pool',
  'stream',
  'size',
  'allocation',
] as const satisfies readonly (By | 'allocation')[];
export type ColorBy = (typeof COLORS)[number];
/** The choice; null: by category where it is known. */
export const chosenColor = kept('color', oneOf(COLORS), null);

/** Whether it is known of any memory what it is for. */
export const tellsCategories = (device: Pick<Device, 'purposes'> | null): boolean =>
  device?.purposes?.some(({ category }) => category !== 'preexisting' && category !== 'unknown') ?? false;

/** What the allocations of a device are coloured by. */
export const colorOf = (device: Device | null): ColorBy => chosenColor.value ?? (tellsCategories(device) ? 'category' : 'stack');
export const colorBy = computed(() => colorOf(current.value));

export const GROUPS = [
  'stack',
  'line',
  'function',
  'file',
  'module',
  'category',
  'layer',
  'step',
  'stream',
  'pool',
  'size',
] as const satisfies readonly By[];
export const groupBy = kept('by', oneOf(GROUPS), 'line');

/** Which frames make nodes of the tree of calls. */
export const CALLS = ['own', 'python', 'all'] as const satisfies readonly CallsOf[];
export const callsOf = kept('calls', oneOf(CALLS), 'own');
/** Whether the tree has the innermost calls outermost. */
export const isInverted = kept('inverted', flag, false);

/** Whether the views of a moment show only what the search finds, where something is searched. */
export const onlyMatches = kept('matches', unless('marked'), true);
