// The last pictures of the timeline that were drawn.

import { signal } from '@preact/signals';
import type { Picture } from '../source/source';
import { ofCurrent } from '../state/recordings';

/** A picture as it was drawn, and of which recording it is. */
export interface Shown {
  scope: string;
  picture: Picture;
}

/** What was drawn last for exactly the window that was wanted, and the same when the hand rests. */
export const drawn = { last: signal<Shown | null>(null), rested: signal<Shown | null>(null) };
/** The last picture that was drawn of what is shown. */
export const shown = ofCurrent(drawn.last);
/** The same when the hand rests: for what is read, not steered by. */
export const settled = ofCurrent(drawn.rested);
