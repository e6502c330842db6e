// The recording under other settings of the allocator, and the chosen one of these.

import { computed } from '@preact/signals';
import { asked, once } from './asked';
import { keptOfDevice, wholeNumber } from './kept';
import { device, file } from './place';
import { current, source } from './recordings';

/** The row of the what-if table whose line is drawn over the timeline; null: none. */
export const setting = keptOfDevice('setting', wholeNumber, null);

export const replayOf = once((file, device, unwanted) => source.replay(file, device, unwanted));

export const nameOf = (conf: string) => (conf === '' ? 'the defaults' : conf);

/** An extra line over the timeline: the reserved bytes that a setting would have had. */
export interface Overlay {
  label: string;
  /** [moment, bytes] at each change, in order. */
  points: readonly (readonly [number, number])[];
}

const isChosen = computed(() => setting.value !== null);

const replay = asked((unwanted) =>
  isChosen.value && current.value?.events ? replayOf(file.value, device.value, unwanted) : null,
);

/** The line of the chosen setting, whichever view is shown. */
export const overlay = computed<Overlay | null>(() => {
  const at = setting.value;
  if (at === null) return null;
  const [row, points] = [replay.value?.device.what_if[at], replay.value?.lines[at]];
  return row && points ? { label: `reserved with ${nameOf(row.conf)}`, points } : null;
});
