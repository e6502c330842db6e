// The shown view, device and file. Each combination is an entry in the browser's history.

import { computed, signal } from '@preact/signals';
import { inAddress, inAddressOr, oneOf, wholeNumber, type AddressForm } from './in-address';
import { firstDevice, isOfRanks, ranks, recordings } from './files';

/**
 * The views by their names in the address, with the titles of their tabs. The keys 1, 2, 3 ... show them in this order. The component of a
 * view is `View` in `view.tsx` of the folder of its name in views/. It stores state in the address with `inAddress` (in-address.ts). Its outermost element has the
 * class `NAME-view`, for the browser tests.
 */
const TITLES = {
  ranks: 'Ranks',
  overview: 'Overview',
  timeline: 'Timeline',
  state: 'State',
  segments: 'Segments',
  allocations: 'Allocations',
  moment: 'Moment',
  steps: 'Steps',
  compare: 'Compare',
  whatif: 'What-if',
  source: 'Source',
  sql: 'SQL',
} as const;

export type ViewName = keyof typeof TITLES;
export const VIEWS: Readonly<Record<ViewName, string>> = TITLES;
/** The views of this page. */
export const VIEW_NAMES = (Object.keys(TITLES) as ViewName[]).filter((name) => isOfRanks || name !== 'ranks');

/** Whether a view needs no shown recording: those of all ranks of a job. */
export const isOfJob = (name: ViewName) => name === 'ranks' || (isOfRanks && name === 'sql');

/** The view until the user chooses one. */
export const defaultView = signal<ViewName>(isOfRanks ? 'ranks' : 'overview');
export const view = inAddressOr('view', oneOf(VIEW_NAMES), defaultView);
/** A file by its position, or a rank's file by the rank's number, as `rank13`. */
const fileForm: AddressForm<number> = {
  read(text) {
    const rank = /^rank(\d+)$/.exec(text)?.[1];
    if (rank === undefined) return wholeNumber.read(text);
    const at = ranks.value?.ranks.findIndex((one) => String(one.rank) === rank) ?? -1;
    return at < 0 ? undefined : at;
  },
  write(at) {
    const rank = ranks.value?.ranks[at]?.rank;
    return rank === undefined ? String(at) : `rank${rank}`;
  },
};

/** The default of `file`: the first file, or none for a job. */
export const NO_FILE = isOfRanks ? -1 : 0;
/** The position in `recordings`. */
export const file = inAddress('file', fileForm, NO_FILE);
/** The chosen position in the file's `devices`; null: the default device. */
export const chosenDevice = inAddress('device', wholeNumber, null);
/** The position in the file's `devices`. */
export const device = computed(() => chosenDevice.value ?? firstDevice(recordings.value?.[file.value]?.devices ?? []));

/** The shown file and device as one text. It is stored with answers, so that none is shown for another device. */
export const scope = computed(() => `${file.value}.${device.value}`);
export const place = computed(() => `${view.value} ${scope.value}`);
