// The details of the selected allocation.

import { purposeFacts, tagFacts, tensorFacts } from '../names/tags';
import { usesFacts, when } from './uses';
import { ForwardPass, Referrers, StackTrace } from '../parts/stack-trace';
import { Facts } from '../parts/tooltip';
import type { Allocation, Device } from '../source/source';
import { selection } from '../state/allocation';
import { chooseMoment, showSelected } from '../state/moves';
import { file, view } from '../state/place';
import { current } from '../state/recordings';
import { selected } from '../state/selection';
import { address, bytes, count, duration } from '../text/units';
import { lifetime } from './scene';

type Fact = [name: string, value: string, exact?: string];

const exactly = (n: number) => `${count(n)} bytes`;

function factsOf(allocation: Allocation, device: Device): Fact[] {
  const tags = device.tags[allocation.tags];
  const facts: Fact[] = [
    ...purposeFacts(device.purposes?.[allocation.purpose]),
    ...tensorFacts(allocation.tensor),
    ['block', `${bytes(allocation.bytes)}${allocation.size_inferred ? ' (inferred)' : ''}`, exactly(allocation.bytes)],
    ['requested', bytes(allocation.requested), exactly(allocation.requested)],
    ['lost to rounding', bytes(allocation.bytes - allocation.requested), exactly(allocation.bytes - allocation.requested)],
    [
      'address',
      allocation.version === 0
        ? address(allocation.address)
        : `${address(allocation.address)}, use ${count(allocation.version + 1)} of it`,
    ],
    ['allocated', allocation.from === 0 ? 'before recording began' : when(allocation.from - 1, allocation.from_us)],
  ];
  if (allocation.freed !== null) facts.push(['free requested', when(allocation.freed - 1, allocation.freed_us)]);
  facts.push(['freed', allocation.to === null ? 'never in the recording' : when(allocation.to - 1, allocation.to_us)]);
  if (allocation.from_us !== null && allocation.to_us !== null)
    facts.push(['lived for', duration(allocation.to_us - allocation.from_us)]);
  facts.push(['allocated after it', bytes(allocation.total), exactly(allocation.total)]);
  if (allocation.uses) facts.push(...usesFacts(allocation.uses));
  if (tags) facts.push(...tagFacts(tags));
  return facts;
}

/** The heading of an allocation's stack, by its `origin` (a position in ORIGINS). */
const STACK_HEADINGS = ['Allocated by', 'Allocated by (before recording began)', 'Freed by (allocation not recorded)'];

function Actions({ allocation }: { allocation: Allocation }) {
  return (
    <div class="details-actions">
      <button type="button" class="button" onClick={showLife}>
        Show lifetime
      </button>
      <button type="button" class="button" onClick={() => chooseMoment(allocation.from)}>
        Go to start
      </button>
      {allocation.to !== null && (
        <button type="button" class="button" onClick={() => chooseMoment(allocation.to!)}>
          Go to end
        </button>
      )}
    </div>
  );
}

/** Shows the selected allocation's lifetime, with a tenth of it on each side. */
function showLife(): void {
  const ends = lifetime();
  if (!ends) return;
  const around = (ends[1] - ends[0]) * 0.1;
  showSelected([ends[0] - around, ends[1] + around]);
}

/** Renders null without a selection, or until its answer arrives. */
export function AllocationDetails() {
  const allocation = selection.value;
  const device = current.value;
  if (!device || selected.value === null || !allocation) return null;
  return (
    <section class="details-part" aria-label="Selected allocation">
      <header class="details-head">
        <h2>{bytes(allocation.bytes)}</h2>
        <button type="button" class="button" onClick={() => (selected.value = null)}>
          Clear
        </button>
      </header>
      <Facts facts={factsOf(allocation, device)} />
      {allocation.tensor && allocation.tensor.referrers.length > 0 && <Referrers chains={allocation.tensor.referrers} />}
      <Actions allocation={allocation} />
      <StackTrace
        stack={allocation.origin === 2 ? (allocation.free_stack ?? allocation.stack) : allocation.stack}
        file={file.value}
        heading={STACK_HEADINGS[allocation.origin] ?? 'Stack'}
      />
      {allocation.forward.length > 0 && <ForwardPass lines={allocation.forward} />}
      {allocation.origin !== 2 && allocation.free_stack !== null && (
        <StackTrace stack={allocation.free_stack} file={file.value} heading="Freed by" />
      )}
    </section>
  );
}

/** The selected allocation in one line, below the timeline of the other views. */
export function SelectionBar() {
  const allocation = selection.value;
  if (selected.value === null || !allocation) return null;
  return (
    <div class="selection-bar" data-selected={allocation.id}>
      <span>
        Selected: <b>{bytes(allocation.bytes)}</b> at <code>{address(allocation.address)}</code>
      </span>
      <button type="button" class="link-button" onClick={() => (view.value = 'timeline')}>
        Show details
      </button>
      <button type="button" class="link-button" onClick={() => (selected.value = null)}>
        Clear
      </button>
    </div>
  );
}
