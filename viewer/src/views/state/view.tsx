// The state of the allocator at any moment: its segments and blocks, the event before it, and the list of all events.

import { useMemo, useRef } from 'preact/hooks';
import { layerText, purposeFacts, tagFacts } from '../../names/tags';
import { numberAt } from '../../numbers/at';
import { useAnswer } from '../../parts/answer';
import { Empty, Waiting } from '../../parts/controls';
import { CounterRow } from '../../parts/counters';
import { lifeText, momentText, useCurrent, type Current } from '../../parts/current';
import { EventList, actionOf, actionWords, effectOf } from './event-list';
import { drawnBytes } from './map/arrange';
import { SegmentMap, type Outline } from './map/segment-map';
import { useEventPages, type EventAt } from './pages';
import { PoolButtons, PoolContents, chosenPool, poolsToShow } from '../../parts/pools';
import { Split } from '../../parts/split';
import { StackTrace } from '../../parts/stack-trace';
import { Facts } from '../../parts/tooltip';
import { stepOf } from '../../parts/virtual';
import { NONE, type Holes, type Layout, type Tables, type Tags } from '../../source/source';
import { isIn, onlyQuery, shownFound } from '../../search/found';
import { selection } from '../../state/allocation';
import { hole } from '../../state/hole';
import { restedMoment, shownMoment } from '../../state/moment';
import { chooseMoment } from '../../state/moves';
import { segmentsOf } from '../../state/pools';
import { source } from '../../state/recordings';
import { selected } from '../../state/selection';
import { address, bytes, count, duration } from '../../text/units';
import { HoleDetails } from './hole';
import { FreeMemory, shownHole } from './holes';

/** Moments that PageUp and PageDown skip. */
const PAGE = 100;

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  return <State key={shown.scope} {...shown} />;
}

function State(shown: Current) {
  const { file, device, recording, names } = shown;
  const panel = useRef<HTMLDivElement>(null);
  const at = shownMoment.value;
  const layout = useAnswer(shown.scope, String(at), (unwanted) =>
    source.ask(file, device, { question: 'layout', moment: at }, unwanted),
  );
  // Holes are requested once the moment has not changed for a while; until then, the previous answer stays.
  const isResting = restedMoment.value === at;
  const holes = useAnswer(
    shown.scope,
    String(at),
    isResting ? (unwanted) => source.ask(file, device, { question: 'holes', moment: at }, unwanted) : null,
  );
  const segments = useAnswer(shown.scope, shown.scope, (unwanted) => segmentsOf(file, device, unwanted)).value;
  const pools = poolsToShow(segments);
  const course = chosenPool(segments);
  // Do not combine answers about different moments.
  const free = holes.value?.moment === layout.value?.moment ? holes.value : null;
  const told = useRef<{ free: Holes; layout: Layout } | null>(null);
  if (free && layout.value) told.current = { free, layout: layout.value };
  const holeAt = free && shownHole(free);
  const total = useMemo(() => layout.value && drawnBytes(layout.value), [layout.value]);
  const pages = useEventPages(file, device, recording.events);
  const event = at === 0 ? null : at - 1;
  if (event !== null) pages.need(event, event + 1);
  const shownEvent = event === null ? null : pages.get(event);

  const keys = (e: KeyboardEvent) => {
    const to = stepOf(e.key, at, recording.events + 1, PAGE);
    if (to === null) return;
    e.preventDefault();
    e.stopPropagation();
    chooseMoment(to);
  };
  const drawn = () => {
    if (panel.current && layout.value) Object.assign(panel.current.dataset, { moment: layout.value.moment, ...total });
  };

  return (
    <div ref={panel} class="panel state-view" aria-busy={layout.pending || holes.pending || !isResting}>
      <header class="panel-head state-head">
        <div class="panel-title">
          <h2>State {momentText(at, recording)}</h2>
        </div>
        {layout.value && <CounterRow counters={layout.value.counters} />}
        {layout.value && <Matching layout={layout.value} />}
        <label class="slider">
          <span class="visually-hidden">Moment</span>
          <input
            type="range"
            min={0}
            max={recording.events}
            step={1}
            value={at}
            aria-valuetext={momentText(at, recording)}
            onInput={(e) => chooseMoment(Number(e.currentTarget.value))}
            onKeyDown={keys}
          />
        </label>
      </header>
      <Split
        name="events"
        pane="events"
        panes="beside"
        sized="first"
        initial="min(430px, 34%)"
        least={160}
        first={
          <Split
            name="event-details"
            pane="details"
            panes="above"
            sized="second"
            initial="48%"
            first={
              recording.events === 0 ? (
                <Empty title="No history was recorded.">
                  <p>The file holds only the state when the snapshot was taken.</p>
                </Empty>
              ) : (
                <EventList
                  count={recording.events}
                  pages={pages}
                  names={names}
                  chosen={event}
                  choose={(e) => chooseMoment(e + 1)}
                />
              )
            }
            second={
              recording.events > 0 || selected.value !== null || holeAt !== null ? (
                <div class="state-details" role="region" aria-label="Details" tabIndex={0}>
                  {free && layout.value && holeAt !== null && (
                    <HoleDetails shown={shown} holes={free} layout={layout.value} at={holeAt} />
                  )}
                  {at === 0 && recording.events > 0 && <p class="fact-section quiet">No event has happened yet.</p>}
                  {shownEvent && <EventDetails file={file} event={event!} at={shownEvent} tags={recording.tags} />}
                  <SelectedDetails file={file} tables={recording} />
                </div>
              ) : null
            }
          />
        }
        second={
          layout.value ? (
            <div class="state-memory">
              {pools.length > 0 && <PoolButtons pools={pools} recording={recording} />}
              <Split
                name="holes"
                pane="free memory"
                panes="above"
                sized="second"
                initial="45%"
                least={120}
                first={
                  <SegmentMap
                    layout={layout.value}
                    tables={recording}
                    names={names}
                    peakReserved={recording.peaks.reserved.bytes}
                    outlined={outlines(layout.value, shownEvent, free, holeAt)}
                    pools={segments?.courses ?? []}
                    end={recording.events}
                    choose={(allocation) => (selected.value = selected.value === allocation ? null : allocation)}
                    bring={free && holeAt !== null ? numberAt(free.address, holeAt) : null}
                    chooseHole={(address) => (hole.value = address)}
                    keys={keys}
                    drawn={drawn}
                  />
                }
                second={
                  course ? (
                    <PoolContents key={course.name} shown={shown} course={course} moment={at} at="moment" />
                  ) : told.current && told.current.free.count > 0 ? (
                    <FreeMemory holes={told.current.free} layout={told.current.layout} tables={recording} names={names} />
                  ) : null
                }
              />
            </div>
          ) : (
            <Waiting error={layout.error} what="Reading the state at this moment." />
          )
        }
      />
    </div>
  );
}

/** The bytes of the blocks that match the search, while only matches have their colors. */
function Matching({ layout: { blocks, counters } }: { layout: Layout }) {
  const found = onlyQuery.value && shownFound.value?.allocations;
  if (!found) return null;
  const matching = blocks.bytes.reduce((sum, n, b) => sum + (isIn(found, numberAt(blocks.allocation, b)) ? n : 0), 0);
  return (
    <span class="compared" title={`${count(matching)} bytes`} data-matching={matching}>
      {bytes(matching)} of {bytes(counters.active)} match
    </span>
  );
}

/** Returns the outlines in the map: the event's block or range, the shown hole, and the selected allocation. */
function outlines({ blocks }: Layout, event: EventAt | null, holes: Holes | null, holeAt: number | null): Outline[] {
  const found: Outline[] = [];
  if (holes && holeAt !== null)
    found.push({ address: numberAt(holes.address, holeAt), bytes: numberAt(holes.bytes, holeAt), ink: 'bad' });
  // An out-of-memory event has the device's free bytes in place of an address.
  if (
    event &&
    actionOf(event.page, event.at) !== 'oom' &&
    numberAt(event.page.bytes, event.at) > 0 &&
    numberAt(event.page.address, event.at) > 0
  ) {
    found.push({ address: numberAt(event.page.address, event.at), bytes: numberAt(event.page.bytes, event.at), ink: 'accent' });
  }
  const b = selected.value === null ? -1 : blocks.allocation.indexOf(selected.value);
  if (b >= 0) found.push({ address: numberAt(blocks.address, b), bytes: numberAt(blocks.bytes, b), ink: 'text' });
  return found;
}

interface EventDetailsProps {
  file: number;
  event: number;
  at: EventAt;
  tags: readonly Tags[];
}

function EventDetails({ file, event, at: { page, at }, tags }: EventDetailsProps) {
  const action = actionOf(page, at);
  const own = tags[numberAt(page.tags, at)];
  const size = numberAt(page.bytes, at);
  const facts: [string, string, string?][] = [];
  const where = numberAt(page.address, at);
  // An out-of-memory event has the device's free bytes in place of an address.
  if (action === 'oom') facts.push(['free on device', bytes(where), `${count(where)} bytes`]);
  else if (where > 0) facts.push(['address', address(where)]);
  if (size > 0) facts.push(['size', bytes(size), `${count(size)} bytes`]);
  const time = numberAt(page.time_us, at);
  if (!Number.isNaN(time)) facts.push(['time', duration(time), `${count(time)} us after the first event`]);
  // Events of older PyTorch releases have no pool. It is then left out, because the allocation may have one.
  if (own) facts.push(...tagFacts(own).filter(([name]) => own.pool !== null || name !== 'pool'));
  const allocation = numberAt(page.allocation, at);
  return (
    <section class="fact-section" aria-label="Event">
      <h3>
        Event {count(event)} <span class={`event-action effect-${effectOf(action)}`}>{actionWords(action)}</span>
        {allocation !== NONE && selected.value !== allocation && (
          <button type="button" class="link-button" onClick={() => (selected.value = allocation)}>
            Select its allocation
          </button>
        )}
      </h3>
      <Facts facts={facts} />
      <StackTrace file={file} stack={numberAt(page.stack, at)} heading="Stack of the event" />
    </section>
  );
}

function SelectedDetails({ file, tables }: { file: number; tables: Tables }) {
  const allocation = selection.value;
  if (!allocation || selected.value !== allocation.id) return null;
  const layer = tables.tags[allocation.tags]?.layer ?? null;
  const facts: [string, string, string?][] = [
    ...purposeFacts(tables.purposes?.[allocation.purpose]),
    ...(layer === null ? [] : [['layer', layerText(layer)] as [string, string]]),
    ['address', address(allocation.address)],
    ['size', bytes(allocation.bytes), `${count(allocation.bytes)} bytes`],
    ['requested', bytes(allocation.requested), `${count(allocation.requested)} bytes`],
    ['lives', lifeText(allocation.from, allocation.to)],
  ];
  return (
    <section class="fact-section" aria-label="Selected allocation">
      <h3>
        Selected allocation
        <button type="button" class="link-button" onClick={() => (selected.value = null)}>
          Clear
        </button>
      </h3>
      <Facts facts={facts} />
      <StackTrace file={file} stack={allocation.stack} heading="Stack of the allocation" />
    </section>
  );
}
