// An extra line over the timeline: the reserved bytes that the chosen setting would have had.

import { computed } from '@preact/signals';
import { asked, once } from '../shell/asked';
import { current, device, file, setting, source } from '../state';

export interface Overlay {
  label: string;
  /** [moment, bytes] at each change, in order. */
  points: readonly (readonly [number, number])[];
}

export const replayOf = once((file, device, unwanted) => source.replay(file, device, unwanted));

export const nameOf = (conf: string) => (conf === '' ? 'the defaults' : conf);

const isChosen = computed(() => setting.value !== null);

const replay = asked((unwanted) =>
  (isChosen.value && current.value?.events ? replayOf(file.value, device.value, unwanted) : null));

/** The line belongs to the chosen setting, whichever view is shown. */
export const overlay = computed<Overlay | null>(() => {
  const [at, answer] = [setting.value, replay.value];
  const row = at === null ? undefined : answer?.what_if[at];
  return row === undefined ? null : { label: `reserved with ${nameOf(row.conf)}`, points: answer!.lines[at!] };
});
