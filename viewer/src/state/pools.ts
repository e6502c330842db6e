// The pools of a device, and the chosen pool.

import { once } from './asked';
import { inAddressOfDevice, twoWholeNumbers } from './in-address';
import { source } from './recordings';

/** The pool whose contents are shown; null: none. */
export const pool = inAddressOfDevice('pool', twoWholeNumbers, null);

/** Requests a device's reserved ranges and pools. */
export const segmentsOf = once((file, device, unwanted) => source.ask(file, device, { question: 'segments' }, unwanted));
