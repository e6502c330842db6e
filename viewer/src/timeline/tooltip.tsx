// The tooltip of the timeline. It uses only the picture's items, without a request to the source.

import { stackTitle } from '../draw/color-keys';
import { framesOf, readableFrames } from '../names/stacks';
import { purposeFacts, tagFacts } from '../names/tags';
import { numberAt } from '../numbers/at';
import { PhaseFacts, StepFacts } from '../parts/step-facts';
import { eventsText, lifeText, momentText, rangeText } from '../parts/current';
import { Facts, Tooltip } from '../parts/tooltip';
import { KINDS, NONE, type Picture } from '../source/source';
import { selection } from '../state/allocation';
import { current, currentNames } from '../state/recordings';
import { phases } from '../state/phases';
import { regions } from '../state/regions';
import { steps } from '../state/steps';
import { address, bytes, capital, duration } from '../text/units';
import type { Hover } from './gestures';

type Fact = [name: string, value: string];

/** The most frames in the tooltip. */
const FRAMES = 4;

export function TimelineTooltip({ target, clientX: x, clientY: y }: Hover) {
  if (target.kind === 'note')
    return (
      <Tooltip x={x} y={y}>
        <p class="tooltip-title">{current.value && capital(rangeText(target.note.from, target.note.to, current.value))}</p>
        <p class="note-text">{target.note.text}</p>
        <p class="quiet">Click to show only this part.</p>
      </Tooltip>
    );
  if (target.kind === 'region')
    return (
      <Tooltip x={x} y={y}>
        <RegionFacts region={target.region} />
      </Tooltip>
    );
  if (target.kind === 'phase')
    return (
      <Tooltip x={x} y={y}>
        {phases.value && <PhaseFacts phases={phases.value} phase={target.phase} />}
        <p class="quiet">Click to show only this phase.</p>
      </Tooltip>
    );
  if (target.kind === 'step')
    return (
      <Tooltip x={x} y={y}>
        {steps.value && <StepFacts steps={steps.value} step={target.step} />}
        <p class="quiet">Click to show only this step, at its peak.</p>
      </Tooltip>
    );
  if (target.kind !== 'plot') return null;
  return (
    <Tooltip x={x} y={y}>
      {target.item === null ? (
        <NothingHere picture={target.picture} column={target.column} moment={target.moment} />
      ) : (
        <ItemFacts picture={target.picture} item={target.item} />
      )}
    </Tooltip>
  );
}

/** Shows the highest bytes in a pixel column's part of the recording. */
function NothingHere({ picture, column, moment }: { picture: Picture; column: number; moment: number }) {
  return (
    <>
      <p class="tooltip-title">{current.value && capital(momentText(moment, current.value))}</p>
      <Facts facts={KINDS.map((kind) => [kind, bytes(numberAt(picture.highest[kind], column))] as const)} />
    </>
  );
}

function RegionFacts({ region }: { region: number }) {
  const all = regions.value!;
  const facts: Fact[] = [['events', eventsText(numberAt(all.from, region), numberAt(all.to, region))]];
  const took = numberAt(all.to_us, region) - numberAt(all.from_us, region);
  if (Number.isFinite(took)) facts.push(['took', duration(took)]);
  return (
    <>
      <p class="tooltip-title">{all.names[numberAt(all.name, region)]}</p>
      <Facts facts={facts} />
      <p class="quiet">Click to show only this region.</p>
    </>
  );
}

function ItemFacts({ picture, item }: { picture: Picture; item: number }) {
  const { items, window } = picture;
  const device = current.value;
  const known = currentNames.value;
  const reserved = window.stacked === 'reserved';
  const tags = device?.tags[numberAt(items.tags, item)];
  const [id, stack] = [numberAt(items.id, item), numberAt(items.stack, item)];
  const facts: Fact[] = [
    ['address', address(numberAt(items.address, item))],
    ['lives', lifeText(numberAt(items.from, item), numberAt(items.to, item))],
  ];
  const asked = selection.value;
  if (asked?.id === id && !reserved && asked.from_us !== null && asked.to_us !== null) {
    facts.push(['for', duration(asked.to_us - asked.from_us)]);
  }
  facts.push(...purposeFacts(device?.purposes?.[items.purpose[item] ?? NONE]));
  if (tags) facts.push(...tagFacts(tags));
  const frames = known ? readableFrames(known, stack) : [];
  return (
    <>
      <p class="tooltip-title">
        {bytes(numberAt(items.bytes, item))} {reserved ? 'reserved range' : ''}
      </p>
      <Facts facts={facts} />
      {known && frames.length > 0 && (
        <ol class="tooltip-frames">
          {frames.slice(0, FRAMES).map((frame, i) => (
            <li key={i}>{known.label[frame]}</li>
          ))}
          {frames.length > FRAMES && <li class="quiet">and {frames.length - FRAMES} more</li>}
        </ol>
      )}
      {known && frames.length === 0 && (
        <p class="quiet">{framesOf(known, stack).length === 0 ? 'No stack was recorded.' : stackTitle(known, stack)}</p>
      )}
    </>
  );
}
