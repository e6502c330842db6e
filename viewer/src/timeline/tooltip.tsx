// What the pointer is on, from the picture's own items: nothing is asked.

import { framesOf, readableFrames, stackLabel } from '../live/stacks';
import { poolName, streamName } from '../live/group';
import { Facts, Tooltip } from '../parts/tooltip';
import { NONE, type Items } from '../source/source';
import { axis, current, file, names } from '../state';
import { address, bytes, count, duration } from '../text/units';
import type { Under } from './gestures';
import { regions, selection, shown } from './model';

type Fact = [name: string, value: string];

const FRAMES = 4;

export function TimelineTooltip({ under, x, y }: { under: Under; x: number; y: number }) {
  if (under?.kind === 'region') return <Tooltip x={x} y={y}><RegionFacts region={under.region} /></Tooltip>;
  if (under?.kind !== 'plot' || !shown.value) return null;
  return (
    <Tooltip x={x} y={y}>
      {under.item === null ? (
        <p class="quiet">{axis.value === 'time' ? duration(under.at) : `Moment ${count(under.moment)}`}, at {bytes(under.bytes)}: nothing here</p>
      ) : (
        <ItemFacts items={shown.value.picture.items} item={under.item} />
      )}
    </Tooltip>
  );
}

function RegionFacts({ region }: { region: number }) {
  const all = regions.value!;
  const facts: Fact[] = [['events', `${count(all.from[region])} to ${count(all.to[region])}`]];
  const took = all.to_us[region] - all.from_us[region];
  if (Number.isFinite(took)) facts.push(['took', duration(took)]);
  return (
    <>
      <p class="tooltip-title">{all.names[all.name[region]]}</p>
      <Facts facts={facts} />
      <p class="quiet">Click to show only this region.</p>
    </>
  );
}

function ItemFacts({ items, item }: { items: Items; item: number }) {
  const device = current.value;
  const known = names.value.get(file.value);
  const reserved = shown.value!.picture.window.stacked === 'reserved';
  const tags = device?.tags[items.tags[item]];
  const stack = items.stack[item];
  const facts: Fact[] = [
    ['address', address(items.address[item])],
    ['lives', lifetime(items.from[item], items.to[item])],
  ];
  const asked = selection.value;
  if (asked?.id === items.id[item] && !reserved && asked.from_us !== null && asked.to_us !== null) {
    facts.push(['for', duration(asked.to_us - asked.from_us)]);
  }
  if (tags) {
    facts.push(['stream', streamName(tags.stream)], ['pool', poolName(tags.pool)]);
    if (tags.category) facts.push(['category', tags.category]);
    if (tags.compile_context) facts.push(['context', tags.compile_context]);
    if (tags.user_metadata) facts.push(['metadata', tags.user_metadata]);
  }
  const frames = known ? readableFrames(known, stack) : [];
  return (
    <>
      <p class="tooltip-title">{bytes(items.bytes[item])} {reserved ? 'reserved range' : ''}</p>
      <Facts facts={facts} />
      {known && frames.length > 0 && (
        <ol class="tooltip-frames">
          {frames.slice(0, FRAMES).map((frame, i) => <li key={i}>{known.label[frame]}</li>)}
          {frames.length > FRAMES && <li class="quiet">and {frames.length - FRAMES} more</li>}
        </ol>
      )}
      {known && frames.length === 0 && (
        <p class="quiet">{framesOf(known, stack).length === 0 ? 'No stack was recorded.' : stackLabel(known, stack)}</p>
      )}
    </>
  );
}

/** Moments as people count events: made by event `from - 1`. */
function lifetime(from: number, to: number): string {
  const start = from === 0 ? 'before recording' : `event ${count(from - 1)}`;
  if (to === NONE) return `${start} to the end`;
  return `${start} to ${count(to - 1)}${from === 0 ? '' : ` (${count(to - from)} events)`}`;
}
