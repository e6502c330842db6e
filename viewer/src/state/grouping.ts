// The groupings of allocations, for colors and tables.

import { computed } from '@preact/signals';
import type { By, CallsOf, Device } from '../source/source';
import { flag, inAddress, inAddressOfDevice, oneOf, type AddressForm } from './in-address';
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
export const chosenColor = inAddress('color', oneOf(COLORS), null);

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
export const groupBy = inAddress('by', oneOf(GROUPS), 'line');

/** The frames that make nodes of the call tree. */
export const CALLS = ['own', 'python', 'all'] as const satisfies readonly CallsOf[];
export const callsOf = inAddress('calls', oneOf(CALLS), 'own');
const stepsForm: AddressForm<readonly number[]> = {
  read: (text) => (/^-?\d{1,9}(\.-?\d{1,9}){0,999}$/.test(text) ? text.split('.').map(Number) : undefined),
  write: (steps) => steps.join('.'),
};
/** The zoomed node of the call tree, as steps from its root: the tables have its allocations alone. Null: the root. */
export const callZoom = inAddressOfDevice('calltree', stepsForm, null);

/** The form of the call tree. */
export const callTreeAs = inAddress('tree', oneOf(['flame', 'table']), 'flame');

/** Whether the call tree starts at the innermost calls. */
export const isInverted = inAddress('inverted', flag, false);
