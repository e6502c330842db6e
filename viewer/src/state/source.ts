// The source file that the source view shows.

import { batch } from '@preact/signals';
import type { Names } from '../source/source';
import { inAddressOfDevice, wholeNumber } from './in-address';
import { view } from './place';

/** A frame of the shown file; null: the list of files. */
export const sourceFrame = inAddressOfDevice('frame', wholeNumber, null);
/** The chosen line; null: none. */
export const sourceLine = inAddressOfDevice('line', wholeNumber, null);
/** The chosen file, if several match the recorded path equally well. */
export const sourceChoice = inAddressOfDevice('choice', wholeNumber, null);

/** Shows the source of a frame. */
export function showSource(frame: number, names: Pick<Names, 'line'>): void {
  batch(() => {
    sourceFrame.value = frame;
    sourceLine.value = names.line[frame] ?? null;
    sourceChoice.value = null;
    view.value = 'source';
  });
}

/** Shows the list of files. */
export function leaveSource(): void {
  batch(() => {
    sourceFrame.value = null;
    sourceLine.value = null;
    sourceChoice.value = null;
  });
}
