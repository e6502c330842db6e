// The pictures of the timeline that were drawn last, for whatever reads them.

import { computed, signal } from '@preact/signals';
import type { Picture } from '../source/source';
import { ofCurrent } from '../state/recordings';

/** A picture that was drawn, and the device that it shows (`scope` in state/place.ts). */
export interface DrawnPicture {
  scope: string;
  picture: Picture;
}

/** The picture that was drawn last for exactly the window that was asked for, and the same once drawing has rested. */
export const drawn = { last: signal<DrawnPicture | null>(null), rested: signal<DrawnPicture | null>(null) };
/** The picture that is on the screen, of the shown device; null where none is drawn yet. */
export const shownPicture = ofCurrent(drawn.last);
/** The same, updated only once drawing has rested: for texts, which need not follow the pointer. */
export const restedPicture = ofCurrent(drawn.rested);
/** Whether the shown device has a picture: what stands beside it, and is not seen before it, is asked after it. */
export const hasPicture = computed(() => shownPicture.value !== null);
