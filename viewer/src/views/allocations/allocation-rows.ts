// Rows of the allocation table, read page by page when they come into view. The most recent pages are cached.

import { useEffect, useReducer, useRef } from 'preact/hooks';
import { numberAt } from '../../numbers/at';
import { newest, type Newest } from '../../source/newest';
import {
  NONE,
  ORIGINS,
  type Allocations,
  type AllocationsQuery,
  type Purpose,
  type Tables,
  type Tags,
} from '../../source/source';
import { reason } from '../../text/reason';

/** The table query without the row range. */
export type TableQuery = Omit<AllocationsQuery, 'first' | 'count'>;

/** Requests some rows. */
export type AskRows = (first: number, count: number, unwanted?: AbortSignal) => Promise<Allocations>;

export interface AllocationRow {
  id: number;
  address: number;
  /** The position among the allocations at this address, from 0. */
  version: number;
  bytes: number;
  requested: number;
  /** The allocating event; null if live before recording began. The freeing event; null if never freed. */
  made: number | null;
  freed: number | null;
  /** Their times in microseconds after the first event; null if unknown. */
  madeUs: number | null;
  freedUs: number | null;
  stack: number;
  tags: Tags | undefined;
  purpose: Purpose | undefined;
  /** A position in ORIGINS. */
  origin: number;
  /** From 0. */
  step: number | null;
  region: string | null;
}

export function rowOf(page: Allocations, at: number, { tags, purposes }: Tables): AllocationRow {
  const event = (moment: number) => (moment === 0 || moment === NONE ? null : moment - 1);
  const known = (us: number) => (Number.isNaN(us) ? null : us);
  const [step, region] = [numberAt(page.step, at), numberAt(page.region, at)];
  return {
    id: numberAt(page.id, at),
    address: numberAt(page.address, at),
    version: numberAt(page.version, at),
    bytes: numberAt(page.bytes_of, at),
    requested: numberAt(page.requested, at),
    made: event(numberAt(page.from, at)),
    freed: event(numberAt(page.freed, at)),
    madeUs: known(numberAt(page.from_us, at)),
    freedUs: known(numberAt(page.freed_us, at)),
    stack: numberAt(page.stack, at),
    tags: tags[numberAt(page.tags, at)],
    purpose: purposes?.[numberAt(page.purpose, at)],
    origin: Math.min(numberAt(page.origin, at), ORIGINS.length - 1),
    step: step === NONE ? null : step,
    region: region === NONE ? null : (page.regions[region] ?? null),
  };
}

/** Rows per page, and cached pages. */
const PAGE = 256;
const KEPT = 64;

/** A table in one order. */
interface Rows {
  key: string;
  pages: Map<number, Allocations>;
  queue: Newest<{ first: number; last: number }>;
}

export interface RowPages {
  /** Counts the answered pages. */
  answered: number;
  /** Null until the first page arrives. */
  total: Pick<Allocations, 'count' | 'bytes'> | null;
  /** Whether a newer table has been requested. */
  pending: boolean;
  error: string | null;
  get: (row: number) => { page: Allocations; at: number } | null;
  /** Requests the missing rows in the half-open range `first..last`. */
  need: (first: number, last: number) => void;
}

/** Returns the rows of `ask` in pages. When `key` changes, the old rows stay until new ones arrive; `scope` names their recording. */
export function useRowPages(scope: string, key: string, ask: AskRows): RowPages {
  const [, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  const shown = useRef<Rows | null>(null);
  const next = useRef<Rows | null>(null);
  const error = useRef<string | null>(null);
  const answered = useRef(0);
  const of = `${scope} ${key}`;
  if (next.current?.key !== of) {
    const pages = new Map<number, Allocations>();
    const queue = newest<{ first: number; last: number }, void>(
      async ({ first, last }, unwanted) => {
        for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) {
          if (pages.has(page)) continue;
          pages.set(page, await ask(page * PAGE, PAGE, unwanted));
          for (const old of pages.keys()) {
            if (pages.size <= KEPT) break;
            if (old !== page) pages.delete(old);
          }
        }
      },
      () => {
        if (next.current?.pages !== pages) return;
        error.current = null;
        answered.current += 1;
        if (shown.current !== next.current) shown.current?.queue.stop();
        shown.current = next.current;
        redraw(null);
      },
      (e) => {
        error.current = reason(e);
        redraw(null);
      },
    );
    if (next.current !== shown.current) next.current?.queue.stop();
    next.current = { key: of, pages, queue };
    queue.want({ first: 0, last: 1 });
  }
  useEffect(
    () => () => {
      shown.current?.queue.stop();
      next.current?.queue.stop();
    },
    [],
  );
  const rows = shown.current?.key.startsWith(`${scope} `) ? shown.current : null;
  const total = rows?.pages.values().next().value ?? null;
  const page = (row: number) => rows?.pages.get(Math.floor(row / PAGE));
  return {
    answered: answered.current,
    total,
    pending: shown.current !== next.current,
    error: error.current,
    get: (row) => {
      const found = page(row);
      return found && row - found.first < found.id.length ? { page: found, at: row - found.first } : null;
    },
    need: (first, last) => {
      for (let row = first; row < last; row = (Math.floor(row / PAGE) + 1) * PAGE) {
        if (!page(row)) return rows?.queue.want({ first, last });
      }
    },
  };
}
