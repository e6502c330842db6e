// The selected allocation, in full.

import { tagFacts } from '../live/tag-facts';
import { StackTrace } from '../parts/stack-trace';
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

/** When, and after which event. */
function when(event: number, us: number | null): string {
  const named = `event ${count(event)}`;
  return us === null ? named : `${named}, ${duration(us)}`;
}

function factsOf(it: Allocation, device: Device): Fact[] {
  const tags = device.tags[it.tags];
  const facts: Fact[] = [
    ['block', `${bytes(it.bytes)}${it.size_inferred ? ' (inferred)' : ''}`, exactly(it.bytes)],
    ['requested', bytes(it.requested), exactly(it.requested)],
    ['lost to rounding', bytes(it.bytes - it.requested), exactly(it.bytes - it.requested)],
    ['address', it.version === 0 ? address(it.address) : `${address(it.address)}, use ${count(it.version + 1)} of it`],
    ['allocated', it.from === 0 ? 'before recording began' : when(it.from - 1, it.from_us)],
  ];
  if (it.freed !== null) facts.push(['free asked for', when(it.freed - 1, it.freed_us)]);
  facts.push(['freed', it.to === null ? 'never, as far as recorded' : when(it.to - 1, it.to_us)]);
  if (it.from_us !== null && it.to_us !== null) facts.push(['lived for', duration(it.to_us - it.from_us)]);
  facts.push(['allocated after it', bytes(it.total), exactly(it.total)]);
  if (tags) facts.push(...tagFacts(tags));
  return facts;
}

const STACK_HEADINGS = ['Allocated by', 'Allocated by, before recording began', 'Freed by; its allocation was not recorded'];

function Actions({ it }: { it: Allocation }) {
  return (
    <div class="details-actions">
      <button type="button" class="button" onClick={showLife}>
        Show its life
      </button>
      <button type="button" class="button" onClick={() => chooseMoment(it.from)}>
        To its start
      </button>
      {it.to !== null && (
        <button type="button" class="button" onClick={() => chooseMoment(it.to!)}>
          To its end
        </button>
      )}
    </div>
  );
}

/** The whole life with a little around it. */
function showLife(): void {
  const ends = lifetime();
  if (!ends) return;
  const around = (ends[1] - ends[0]) * 0.1;
  showSelected([ends[0] - around, ends[1] + around]);
}

export function Details() {
  const it = selection.value;
  const device = current.value;
  if (!device || selected.value === null || !it) {
    return (
      <aside class="details" aria-label="Selected allocation">
        <div class="details-empty">
          <h2>Nothing is selected</h2>
          <p>
            Click an allocation to see who made it, how large it is and how long it lives. A click also chooses the moment that
            the other views show.
          </p>
          <dl class="details-hints">
            <div>
              <dt>Drag</dt>
              <dd>moves along</dd>
            </div>
            <div>
              <dt>Wheel</dt>
              <dd>zooms at the pointer; with Shift, bytes</dd>
            </div>
            <div>
              <dt>Alt + drag</dt>
              <dd>shows only this part</dd>
            </div>
            <div>
              <dt>Double click</dt>
              <dd>shows everything</dd>
            </div>
            <div>
              <dt>?</dt>
              <dd>all keys</dd>
            </div>
          </dl>
        </div>
      </aside>
    );
  }
  return (
    <aside class="details" aria-label="Selected allocation" data-selected={it.id}>
      <header class="details-head">
        <h2>{bytes(it.bytes)}</h2>
        <button type="button" class="button" onClick={() => (selected.value = null)}>
          Clear
        </button>
      </header>
      <Facts facts={factsOf(it, device)} />
      <Actions it={it} />
      <StackTrace
        stack={it.origin === 2 ? (it.free_stack ?? it.stack) : it.stack}
        file={file.value}
        heading={STACK_HEADINGS[it.origin] ?? 'Stack'}
      />
      {it.origin !== 2 && it.free_stack !== null && <StackTrace stack={it.free_stack} file={file.value} heading="Freed by" />}
    </aside>
  );
}

/** The selection in one line, for views that have no room for its details. */
export function SelectionBar() {
  const it = selection.value;
  if (selected.value === null || !it) return null;
  return (
    <div class="selection-bar" data-selected={it.id}>
      <span>
        Selected: <b>{bytes(it.bytes)}</b> at <code>{address(it.address)}</code>
      </span>
      <button type="button" class="link-button" onClick={() => (view.value = 'timeline')}>
        Details
      </button>
      <button type="button" class="link-button" onClick={() => (selected.value = null)}>
        Clear
      </button>
    </div>
  );
}
