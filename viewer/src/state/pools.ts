// The pools of a device, and the chosen one of them.

import { once } from './asked';
import { keptOfDevice, twoWholeNumbers } from './kept';
import { source } from './recordings';

/** The pool whose contents are shown; null: none is chosen. */
export const pool = keptOfDevice('pool', twoWholeNumbers, null);

/** The reserved ranges and the pools of a device. */
export const segmentsOf = once((file, device, unwanted) => source.segments(file, device, unwanted));
