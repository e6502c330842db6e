import { ownLabel } from '../../names/stacks';
import { numberAt } from '../../numbers/at';
import { ACTIONS, type Events, type Names } from '../../source/source';
import { bytes, count } from '../../text/units';
import type { EventPages } from './pages';
import { VirtualList } from '../../parts/virtual-list';

export type Action = (typeof ACTIONS)[number];

/** Formats an action: `free requested`, `out of memory`. */
export const actionWords = (action: Action) => (action === 'oom' ? 'out of memory' : action.replaceAll('_', ' '));

export const actionOf = (events: Events, at: number): Action => ACTIONS[numberAt(events.action, at)] ?? 'unknown';

const TAKES = new Set<Action>(['alloc', 'segment_alloc', 'segment_map']);
const GIVES = new Set<Action>(['free', 'free_requested', 'free_completed', 'segment_free', 'segment_unmap']);

export function effectOf(action: Action): 'takes' | 'gives' | 'fails' | 'other' {
  if (TAKES.has(action)) return 'takes';
  if (GIVES.has(action)) return 'gives';
  return action === 'oom' ? 'fails' : 'other';
}

export interface EventListProps {
  count: number;
  pages: EventPages;
  names: Names | null;
  chosen: number | null;
  choose: (event: number) => void;
}

/** A list of all events of the recording; only those in view are read. */
export function EventList({ count: total, pages, names, chosen, choose }: EventListProps) {
  const row = (event: number) => {
    const found = pages.get(event);
    if (!found) return <span class="event-number">{count(event)}</span>;
    const { page, at } = found;
    const action = actionOf(page, at);
    const label = ownLabel(names, numberAt(page.stack, at));
    return (
      <>
        <span class="event-number">{count(event)}</span>
        <span class={`event-action effect-${effectOf(action)}`}>{actionWords(action)}</span>
        <span class="event-bytes">{numberAt(page.bytes, at) > 0 ? bytes(numberAt(page.bytes, at)) : ''}</span>
        <span class="event-label" title={label}>
          {label}
        </span>
      </>
    );
  };
  return (
    <VirtualList
      id="event"
      label="Events: arrows, PageUp, PageDown, Home and End choose"
      count={total}
      rowHeight={22}
      chosen={chosen}
      choose={choose}
      row={row}
      seen={pages.need}
      answered={pages.answered}
    />
  );
}
