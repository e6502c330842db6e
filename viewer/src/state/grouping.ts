// What allocations are coloured and grouped by.

import { kept, oneOf } from './kept';

export const COLORS = ['stack', 'size', 'category', 'stream', 'pool'] as const;
export type ColorBy = (typeof COLORS)[number];
export const colorBy = kept('color', oneOf(COLORS), 'stack');

export const GROUPS = ['stack', 'line', 'function', 'file', 'category', 'stream', 'pool'] as const;
export type GroupBy = (typeof GROUPS)[number];
export const groupBy = kept('by', oneOf(GROUPS), 'line');
