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
import { chooseSpan } from './span';
import { trouble } from './trouble';
import { axis } from './window';

/** How many events the shown device has; null where none is shown. Unlike the device it stays as it is when more is known of that. */
export const events = computed(() => current.value?.events ?? null);

/** The regions of the shown device; null until they are known. The plot waits for them, for it leaves room above for their rows. */
export const regions = asked(() => {
  if (events.value === null) return null;
  return source.regions(file.value, device.value).catch((e: unknown) => {
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

/** Shows the run with these events: the number of the first, and of the one behind the last. */
export function showRun(first: number, end: number): void {
  const all = regions.value;
  const run = all ? all.from.findIndex((from, i) => from === first && all.to[i] === end) : -1;
  if (run >= 0) showRegion(run);
}

/** Shows one run of a region alone, and chooses it as the span. */
export function showRegion(run: number): void {
  const all = regions.value;
  if (!all) return;
  batch(() => {
    chooseSpan([numberAt(all.from, run), numberAt(all.to, run)]);
    showSelected(momentsOnAxis(all, run, axis.value));
  });
}
