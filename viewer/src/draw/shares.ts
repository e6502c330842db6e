// The groups and bytes listed in the legend.

import { computed } from '@preact/signals';
import { itemsBy } from './item-colors';
import { hasPicture } from './shown';
import { onlyQuery, query } from '../search/found';
import { asked, rested } from '../state/asked';
import { shownMoment } from '../state/moment';
import { device, file } from '../state/place';
import { interval } from '../state/interval';
import { current, source } from '../state/recordings';
import { stacked } from '../state/window';

/** The most groups in the legend. */
const MOST = 12;

/** The first and last moment that the legend covers. */
const asks = computed(() => (interval.value ?? [shownMoment.value, shownMoment.value]).join(' '));
const restedMoments = rested(asks, 80);

/** The legend's entries and their grouping; null until known, and if each allocation has its own color. */
export const shares = asked((unwanted) => {
  const by = itemsBy.value;
  const all = current.value;
  if (!all || !hasPicture.value || by === 'allocation') return null;
  const [from = 0, to = 0] = restedMoments.value.split(' ').map((at) => Math.min(Number(at), all.events));
  const asking = {
    by,
    from,
    to,
    reserved: stacked.value === 'reserved',
    most: MOST,
    search: query.value,
    only_found: onlyQuery.value !== null,
  };
  return source
    .ask(file.value, device.value, { question: 'legend', ...asking }, unwanted)
    .then((legend) => ({ by, reserved: asking.reserved, only: asking.only_found && !asking.reserved, ...legend }));
});
