// Which view of which device of which file is shown. Each such place is an entry of the browser's history.

import { computed, signal } from '@preact/signals';
import { kept, keptOr, oneOf, wholeNumber } from './kept';
import { firstDevice, recordings } from './opened';

/**
 * The views by their names in the address, with the titles of their tabs. The keys 1, 2, 3 ... show them in this order.
 * views/registry.ts has what each draws.
 */
export const VIEWS = {
  overview: 'Overview',
  timeline: 'Timeline',
  state: 'State',
  segments: 'Segments',
  allocations: 'Allocations',
  moment: 'Moment',
  compare: 'Compare',
  whatif: 'What-if',
} as const;

export type ViewName = keyof typeof VIEWS;
export const VIEW_NAMES = Object.keys(VIEWS) as ViewName[];

/** The view of whoever has not chosen one. */
export const defaultView = signal<ViewName>('overview');
export const view = keptOr('view', oneOf(VIEW_NAMES), defaultView);
/** Position in `recordings`. */
export const file = kept('file', wholeNumber, 0);
/** The position in the file's `devices` that was chosen; null: none, the first to be looked at is shown. */
export const chosenDevice = kept('device', wholeNumber, null);
/** Position in the file's `devices`. */
export const device = computed(() => chosenDevice.value ?? firstDevice(recordings.value?.[file.value]?.devices ?? []));

/** The shown file and device as one text. Answers are kept with it, so that none is shown for another device. */
export const scope = computed(() => `${file.value}.${device.value}`);
export const place = computed(() => `${view.value} ${scope.value}`);
