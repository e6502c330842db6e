// The operators and kernels in flight at the selected allocation or in the chosen interval, and the memory of the chosen operator.

import type { ComponentChildren } from 'preact';
import { numberAt } from '../numbers/at';
import { Button } from '../parts/controls';
import { Facts } from '../parts/tooltip';
import type { Amount, InFlight as Told, LaunchedKernels, LaunchFacts } from '../source/source';
import { asked } from '../state/asked';
import { restedMoment } from '../state/moment';
import { chooseOperator, clearOperator, operator, operatorFacts, operatorLanes, showOperator } from '../state/operators';
import { device, file } from '../state/place';
import { source } from '../state/recordings';
import { selected } from '../state/selection';
import { interval } from '../state/interval';
import { bytes, count, duration } from '../text/units';

const inBlocks = ({ bytes: size, count: n }: Amount) =>
  n === 0 ? bytes(0) : `${bytes(size)} in ${count(n)} ${n === 1 ? 'block' : 'blocks'}`;

/** The chosen operator, and what it allocated. */
export function OperatorDetails() {
  const facts = operatorFacts.value;
  if (!facts || !operator.value) return null;
  const lane = operator.value[0];
  const { largest } = facts;
  return (
    <section class="details-part operator-details" aria-label="Chosen operator" data-allocated={facts.allocated.bytes}>
      <header class="details-head">
        <h2>{facts.name}</h2>
        <Button onClick={clearOperator} label="Clear the operator">
          Clear
        </Button>
      </header>
      <Facts
        facts={[
          ['took', duration(facts.took_us), `${facts.took_us} us`],
          ['lane', facts.lane],
          ['allocated', inBlocks(facts.allocated), `${count(facts.allocated.bytes)} bytes`],
          ['largest', bytes(facts.largest_bytes), `${count(facts.largest_bytes)} bytes`],
          ['live at its end', inBlocks(facts.kept), `${count(facts.kept.bytes)} bytes`],
        ]}
      />
      {facts.launch && <LaunchOf launch={facts.launch} />}
      <p class="quiet">
        {facts.of_thread
          ? 'Allocations of its own thread, without those of other threads at the same time.'
          : 'Allocations of all threads at the same time.'}
      </p>
      <div class="details-actions">
        <Button onClick={showOperator}>Zoom to it</Button>
        {largest !== null && <Button onClick={() => (selected.value = largest)}>Select the largest block</Button>}
      </div>
      {facts.around.length > 0 && (
        <ol class="operators-list" aria-label="Around it">
          {facts.around.map(([at, name]) => (
            <li key={at}>
              <button type="button" class="link-button" onClick={() => void chooseOperator(lane, at)}>
                in {name}
              </button>
            </li>
          ))}
        </ol>
      )}
      {facts.kernels && <Kernels kernels={facts.kernels} />}
    </section>
  );
}

/** A button that chooses a span. */
function SpanButton({ lane, span, children }: { lane: number; span: number; children: ComponentChildren }) {
  return (
    <button type="button" class="link-button" onClick={() => void chooseOperator(lane, span)}>
      {children}
    </button>
  );
}

/** The operator that launched a kernel, and the call. */
function LaunchOf({ launch: { operator: by, call, waited_us } }: { launch: LaunchFacts }) {
  return (
    <ol class="operators-list" aria-label="Launched by">
      {by && (
        <li>
          <SpanButton lane={by[0]} span={by[1]}>
            launched by {by[2]}
          </SpanButton>
        </li>
      )}
      {call && (
        <li>
          <SpanButton lane={call[0]} span={call[1]}>
            with {call[2]}
          </SpanButton>
          {waited_us !== null && waited_us >= 0 && <span class="quiet">{duration(waited_us)} before it began</span>}
        </li>
      )}
    </ol>
  );
}

const numbered = (n: number, one: string) => `${count(n)} ${n === 1 ? one : `${one}s`}`;

/** The kernels that an operator launched, and their time. */
function Kernels({ kernels }: { kernels: LaunchedKernels }) {
  const { name, number, number_us, lane, span, left_out } = kernels;
  return (
    <section aria-label="Kernels that it launched" data-kernels={kernels.count} data-took-us={kernels.took_us}>
      <p
        class="quiet"
        title="The sum of the times of kernels, copies and fills that its thread launched within it; some may run at once."
      >
        {kernels.count === 0
          ? 'It launched no kernels.'
          : `It launched ${numbered(kernels.count, 'kernel')}: ${duration(kernels.took_us)} on the GPU.`}
      </p>
      <ol class="operators-list">
        {name.map((name, i) => (
          <li key={i}>
            <SpanButton lane={numberAt(lane, i)} span={numberAt(span, i)}>
              {name}
            </SpanButton>
            <span class="quiet">{timesAndTime(numberAt(number, i), numberAt(number_us, i))}</span>
          </li>
        ))}
      </ol>
      {left_out > 0 && <p class="quiet">and {numbered(left_out, 'other name')}</p>}
    </section>
  );
}

const inFlight = asked((unwanted) => {
  if (!operatorLanes.value || (operator.value && selected.value === null)) return null;
  const [from, to] = selected.value === null && interval.value ? interval.value : [restedMoment.value, restedMoment.value];
  const query = { question: 'in_flight', from, to, allocation: selected.value } as const;
  return source.ask(file.value, device.value, query, unwanted);
});

const HEADINGS = {
  allocation: 'In flight when it was allocated',
  interval: 'In flight in the interval',
  moment: 'In flight at the moment',
};

/** The operators and kernels in flight, innermost first. */
export function InFlight() {
  const told = inFlight.value;
  const lanes = operatorLanes.value;
  if (!told || !lanes) return null;
  const heading = HEADINGS[selected.value !== null ? 'allocation' : interval.value ? 'interval' : 'moment'];
  const titles = new Map(lanes.lanes.map(({ number, title }) => [number, title]));
  return (
    <section class="details-part" aria-label={heading}>
      <header class="details-head">
        <h2>{heading}</h2>
      </header>
      {told.name.length === 0 && <p class="quiet">No operator of the trace.</p>}
      <ol class="operators-list">
        {told.name.map((name, i) => (
          <li key={i} title={titles.get(numberAt(told.lane, i))}>
            <button
              type="button"
              class="link-button"
              onClick={() => void chooseOperator(numberAt(told.lane, i), numberAt(told.span, i))}
            >
              {name}
            </button>
            <span class="quiet">{amountText(told, i)}</span>
          </li>
        ))}
      </ol>
      {told.left_out > 0 && <p class="quiet">and {count(told.left_out)} more</p>}
    </section>
  );
}

const timesAndTime = (n: number, us: number) => `${n > 1 ? `${count(n)} times, ` : ''}${duration(us)}`;

const amountText = (told: Told, i: number) => timesAndTime(numberAt(told.count, i), numberAt(told.took_us, i));
