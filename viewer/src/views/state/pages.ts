// Events in pages, read when they come into view. The most recent pages are cached.

import { useEffect, useMemo, useReducer } from 'preact/hooks';
import { newest } from '../../source/newest';
import type { Events } from '../../source/source';
import { source } from '../../state/recordings';
import { trouble } from '../../state/trouble';
import { reason } from '../../text/reason';

/** Events per page. */
const PAGE = 512;
/** Cached pages. */
const KEPT = 64;

/** An event: a page, and its position there. */
export interface EventAt {
  page: Events;
  at: number;
}

export interface EventPages {
  /** Counts the answered pages. */
  answered: number;
  get: (event: number) => EventAt | null;
  /** Requests the missing events in the half-open range `first..last`. */
  need: (first: number, last: number) => void;
}

type Span = { first: number; last: number };

export function useEventPages(file: number, device: number, count: number): EventPages {
  const [answered, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  const { kept, queue } = useMemo(() => {
    const kept = new Map<number, Events>();
    const ask = async ({ first, last }: Span) => {
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
        if (kept.has(page)) continue;
        const from = page * PAGE;
        kept.set(page, await source.ask(file, device, { question: 'events', first: from, count: Math.min(PAGE, count - from) }));
        for (const old of kept.keys()) {
          if (kept.size <= KEPT) break;
          kept.delete(old);
        }
      }
    };
    const queue = newest<Span, void>(
      ask,
      () => redraw(null),
      (error) => (trouble.value = reason(error)),
    );
    return { kept, queue };
  }, [file, device, count]);
  useEffect(() => () => queue.stop(), [queue]);

  return {
    answered,
    get: (event) => {
      const page = kept.get(Math.floor(event / PAGE));
      return page && page.first <= event && event - page.first < page.action.length ? { page, at: event - page.first } : null;
    },
    need: (first, last) => {
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
        if (!kept.has(page)) return queue.want({ first, last });
      }
    },
  };
}
