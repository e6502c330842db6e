// The contents and order of the allocation table.

import type { AllocationColumn } from '../source/source';
import { inAddress, inAddressOfDevice, oneOf } from './in-address';

export const AMONG = ['all', 'live', 'span'] as const;
/** Every allocation, those live at the shown moment, or those allocated within the chosen interval. */
export const among = inAddressOfDevice('among', oneOf(AMONG), 'all');

/** The names of the sortable columns. */
export const SORTS = [
  'block_bytes',
  'requested_bytes',
  'category',
  'line',
  'layer',
  'step',
  'lifetime_events',
  'lifetime_us',
  'alloc_event',
  'free_event',
  'region',
  'pool',
  'stream',
  'address',
] as const satisfies readonly AllocationColumn[];
export type SortBy = (typeof SORTS)[number];
export const sortBy = inAddress('sort', oneOf(SORTS), 'block_bytes');
export const ascending = inAddress('order', oneOf(['ascending']), null);
