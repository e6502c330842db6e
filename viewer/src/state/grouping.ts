// The groupings of allocations, for colors and tables.

import { computed } from '@preact/signals';
import type { By, CallsOf, Device } from '../source/source';
import { flag, kept, oneOf, unless } from './kept';
import { current } from './recordings';

/** The color choices: a grouping, or a color per allocation. */
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
/** The choice; null: by category if known. */
export const chosenColor = kept('color', oneOf(COLORS), null);

/** Whether any memory has a known category. */
export const tellsCategories = (device: Pick<Device, 'purposes'> | null): boolean =>
  device?.purposes?.some(({ category }) => category !== 'preexisting' && category !== 'unknown') ?? false;

/** Returns the grouping that colors a device's allocations. */
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

/** The frames that make nodes of the call tree. */
export const CALLS = ['own', 'python', 'all'] as const satisfies readonly CallsOf[];
export const callsOf = kept('calls', oneOf(CALLS), 'own');
/** Whether the call tree starts at the innermost calls. */
export const isInverted = kept('inverted', flag, false);

/** Whether the views of a moment show only the matches of a search. */
export const onlyMatches = kept('matches', unless('marked'), true);
