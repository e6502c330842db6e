// What the table of allocations shows, and in which order.

import type { AllocationColumn } from '../source/source';
import { kept, keptOfDevice, oneOf } from './kept';

export const AMONG = ['all', 'live', 'span'] as const;
/** Every allocation, those that are live at the shown moment, or those that were made within the chosen span. */
export const among = keptOfDevice('among', oneOf(AMONG), 'all');

/** A name of each column that the table can be sorted by. */
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
export const sortBy = kept('sort', oneOf(SORTS), 'block_bytes');
export const ascending = kept('order', oneOf(['ascending']), null);
