// An extra line over the timeline: the reserved bytes that another setting would have had.

import { signal } from '@preact/signals';

export interface Overlay {
  label: string;
  /** [moment, bytes] at each change, in order. */
  points: readonly (readonly [number, number])[];
}

export const overlay = signal<Overlay | null>(null);
