// The annotated regions of the shown device.

import { batch, computed } from '@preact/signals';
import { numberAt } from '../numbers/at';
import { momentsOnAxis } from '../numbers/spans';
import type { Regions } from '../source/source';
import { reason } from '../text/reason';
import { asked } from './asked';
import { device, file } from './place';
import { showSelected } from './moves';
import { current, source } from './recordings';
import { chooseInterval } from './interval';
import { trouble } from './trouble';
import { axis } from './window';

/** The number of events of the shown device, or null. Unlike the device, it does not change as more about the device becomes known. */
export const events = computed(() => current.value?.events ?? null);

/** The regions of the shown device; null until known. The plot waits for them, because their rows take room above it. */
export const regions = asked(() => {
  if (events.value === null) return null;
  return source.ask(file.value, device.value, { question: 'regions' }).catch((e: unknown) => {
    trouble.value = reason(e);
    return NO_REGIONS;
  });
});

const NO_REGIONS: Regions = {
  names: [],
  name: new Uint32Array(),
  row: new Uint8Array(),
  from: new Uint32Array(),
  to: new Uint32Array(),
  from_us: new Float64Array(),
  to_us: new Float64Array(),
};

/** Shows the run with these events, as a half-open range `first..end`. */
export function showRun(first: number, end: number): void {
  const all = regions.value;
  const run = all ? all.from.findIndex((from, i) => from === first && all.to[i] === end) : -1;
  if (run >= 0) showRegion(run);
}

/** Zooms to one run of a region, and chooses it as the interval. */
export function showRegion(run: number): void {
  const all = regions.value;
  if (!all) return;
  batch(() => {
    chooseInterval([numberAt(all.from, run), numberAt(all.to, run)]);
    showSelected(momentsOnAxis(all, run, axis.value));
  });
}
