// The most recently drawn pictures of the timeline, for other parts of the page.

import { computed, signal } from '@preact/signals';
import type { Picture } from '../source/source';
import { ofCurrent } from '../state/recordings';

/** A drawn picture and its device (`scope` in state/place.ts). */
export interface DrawnPicture {
  scope: string;
  picture: Picture;
}

/** The last picture drawn for exactly the requested window, and the same after drawing has paused. */
export const drawn = { last: signal<DrawnPicture | null>(null), rested: signal<DrawnPicture | null>(null) };
/** The picture on the screen, for the shown device; null until one is drawn. */
export const shownPicture = ofCurrent(drawn.last);
/** Like `shownPicture`, but updated only after drawing has paused: for texts, which need not follow the pointer. */
export const restedPicture = ofCurrent(drawn.rested);
/** Whether the shown device has a picture. Secondary content is requested only after it. */
export const hasPicture = computed(() => shownPicture.value !== null);
