// The allocation table: sortable by any column, filtered by the search, the shown moment or the chosen interval.

import { batch } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { categoryText, layerText, poolName, streamName } from '../../names/tags';
import { ownLabel, readableFrames } from '../../names/stacks';
import { useAnswer } from '../../parts/answer';
import { rowOf, useRowPages, type AllocationRow, type TableQuery } from './allocation-rows';
import { Empty, Segmented, Waiting } from '../../parts/controls';
import { momentText, useCurrent, type Current } from '../../parts/current';
import { Label } from '../../parts/label';
import { Split } from '../../parts/split';
import { VirtualList } from '../../parts/virtual-list';
import type { Cell } from '../../save/csv';
import { streamedItems } from '../../save/files';
import { SaveMenu } from '../../save/menu';
import { query, queryText, zoomToSelected } from '../../search/found';
import type { Among, Device, Names } from '../../source/source';
import { shownMoment } from '../../state/moment';
import { source } from '../../state/recordings';
import { regions } from '../../state/regions';
import { selected } from '../../state/selection';
import { interval } from '../../state/interval';
import { among, ascending, sortBy, type SortBy } from '../../state/table';
import { AllocationDetails } from '../../timeline/allocation';
import { allocationName, bytes, count, duration, stepNumber } from '../../text/units';

interface Column {
  key: SortBy;
  title: string;
  hint: string;
  /** The width, as a grid track. Those of the columns that every recording has fit a window of 1280 pixels. */
  width: string;
  numeric: boolean;
  text: (row: AllocationRow, names: Names | null) => string;
  exact?: (row: AllocationRow, names: Names | null) => string;
}

const exactly = (n: number) => `${count(n)} bytes`;
const lived = ({ made, freed }: AllocationRow) => (made === null || freed === null ? null : freed - made);
const livedUs = ({ madeUs, freedUs }: AllocationRow) => (madeUs === null || freedUs === null ? null : freedUs - madeUs);
const or = <T,>(value: T | null, text: (value: T) => string) => (value === null ? '–' : text(value));
const when = (event: number, us: number | null) => `event ${count(event)}${us === null ? '' : `, ${duration(us)}`}`;

const COLUMNS: Column[] = [
  {
    key: 'block_bytes',
    title: 'Size',
    hint: 'the bytes of its block',
    width: '76px',
    numeric: true,
    text: (r) => bytes(r.bytes),
    exact: (r) => exactly(r.bytes),
  },
  {
    key: 'requested_bytes',
    title: 'Requested',
    hint: 'the requested bytes',
    width: '76px',
    numeric: true,
    text: (r) => bytes(r.requested),
    exact: (r) => exactly(r.requested),
  },
  {
    key: 'category',
    title: 'Category',
    hint: 'the category',
    width: 'minmax(88px, 112px)',
    numeric: false,
    text: (r) => categoryText(r.purpose?.category ?? null),
    exact: (r) => (r.purpose ? `${categoryText(r.purpose.category)}: ${r.purpose.because}` : ''),
  },
  {
    key: 'line',
    title: 'Line',
    hint: 'the frame that names its stack',
    width: 'minmax(170px, 1fr)',
    numeric: false,
    text: (r, names) => ownLabel(names, r.stack),
    exact: (r, names) =>
      names
        ? readableFrames(names, r.stack)
            .map((frame) => names.label[frame])
            .join('\n')
        : '',
  },
  {
    key: 'layer',
    title: 'Layer',
    hint: 'the module that allocated it',
    width: 'minmax(84px, 120px)',
    numeric: false,
    text: (r) => or(r.tags?.layer ?? null, layerText),
  },
  {
    key: 'step',
    title: 'Step',
    hint: 'the step in which it was allocated',
    width: '44px',
    numeric: true,
    text: (r) => or(r.step, stepNumber),
  },
  {
    key: 'lifetime_events',
    title: 'Lived',
    hint: 'the events from allocation to free',
    width: '64px',
    numeric: true,
    text: (r) => or(lived(r), count),
    exact: (r) => or(lived(r), (n) => `${count(n)} events`),
  },
  {
    key: 'lifetime_us',
    title: 'For',
    hint: 'the time from allocation to free',
    width: '64px',
    numeric: true,
    text: (r) => or(livedUs(r), duration),
    exact: (r) => or(livedUs(r), (us) => `${count(us)} us`),
  },
  {
    key: 'alloc_event',
    title: 'Allocated at',
    hint: 'the event that allocated it',
    width: '80px',
    numeric: true,
    text: (r) => or(r.made, count),
    exact: (r) => (r.made === null ? 'before recording began' : when(r.made, r.madeUs)),
  },
  {
    key: 'free_event',
    title: 'Freed at',
    hint: 'the event that freed it',
    width: '64px',
    numeric: true,
    text: (r) => (r.freed === null ? 'never' : count(r.freed)),
    exact: (r) => (r.freed === null ? 'never in the recording' : when(r.freed, r.freedUs)),
  },
  {
    key: 'region',
    title: 'Region',
    hint: 'the innermost annotated region in which it was allocated',
    width: 'minmax(84px, 130px)',
    numeric: false,
    text: (r) => r.region ?? '–',
  },
  {
    key: 'pool',
    title: 'Pool',
    hint: 'its pool',
    width: 'minmax(84px, 120px)',
    numeric: false,
    text: (r) => poolName(r.tags?.pool ?? null),
  },
  {
    key: 'stream',
    title: 'Stream',
    hint: 'the stream of the allocation',
    width: 'minmax(90px, 110px)',
    numeric: false,
    text: (r) => streamName(r.tags?.stream ?? 0),
  },
  {
    key: 'address',
    title: 'Address',
    hint: 'the address, and its position among the allocations there, as in memory_viz',
    width: 'minmax(118px, 140px)',
    numeric: false,
    text: (r) => allocationName(r.address, r.version),
  },
];

/** Returns the columns that have values for a device. */
function columnsOf({ tags, steps, origin_us: origin }: Device): Column[] {
  const has: Partial<Record<SortBy, boolean>> = {
    layer: tags.some(({ layer }) => layer !== null),
    step: steps !== null,
    lifetime_us: origin !== null,
    region: (regions.value?.names.length ?? 0) > 0,
  };
  return COLUMNS.filter(({ key }) => has[key] ?? true);
}

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  if (shown.recording.allocations === 0) {
    return (
      <Empty title="No allocations were recorded.">
        <p>The recording has no data about single blocks.</p>
      </Empty>
    );
  }
  return <AllocationTable key={shown.scope} {...shown} />;
}

function amongNow(): Among {
  if (among.value === 'live') return { are: 'live_at', moment: shownMoment.value };
  if (among.value === 'span' && interval.value) return { are: 'within', from: interval.value[0], to: interval.value[1] };
  return { are: 'all' };
}

function AllocationTable({ file, device, scope, recording, names }: Current) {
  const asked: TableQuery = {
    search: query.value,
    among: amongNow(),
    sort: sortBy.value,
    descending: ascending.value === null,
    find: null,
  };
  const told = [names !== null, recording.purposes !== null, queryText.value].join(' ');
  const key = `${JSON.stringify([asked.among, asked.sort, asked.descending])} ${told} ${query.value !== null}`;
  const pages = useRowPages(scope, key, (first, rows, unwanted) =>
    source.ask(file, device, { question: 'allocations', ...asked, first, count: rows }, unwanted),
  );
  const { total } = pages;
  const find = selected.value;
  /** The row of the selected allocation, wherever it was selected. */
  const place = useAnswer(
    scope,
    `${key} ${find}`,
    find === null
      ? null
      : async (unwanted) => {
          const rows = { question: 'allocations', ...asked, first: 0, count: 0, find } as const;
          return { row: (await source.ask(file, device, rows, unwanted)).found_row };
        },
  );
  /** The row chosen last; its allocation is selected as soon as the row arrives. */
  const [chosen, setChosen] = useState<{ row: number; id: number | null } | null>(null);
  const there = chosen && chosen.id === null ? pages.get(chosen.row) : null;
  useEffect(() => {
    if (!chosen || !there) return;
    const id = there.page.id[there.at]!;
    setChosen({ ...chosen, id });
    selected.value = id;
  }, [there?.page, chosen?.row]);
  if (!total) return <Waiting error={pages.error} what="Sorting the allocations." />;

  const choose = (row: number) => {
    pages.need(row, row + 1);
    setChosen({ row, id: null });
  };
  // After a change of order, another row may be there.
  const atChosen = chosen && pages.get(chosen.row);
  const isChosen = chosen?.id === null || (atChosen && atChosen.page.id[atChosen.at] === selected.value);
  const columns = columnsOf(recording);
  const chosenRow = chosen && isChosen ? chosen.row : find !== null && !place.pending ? (place.value?.row ?? null) : null;
  const line = (index: number) => {
    const at = pages.get(index);
    if (!at) return <span class="quiet">…</span>;
    const row = rowOf(at.page, at.at, recording);
    return columns.map((c) => {
      const text = c.text(row, names);
      return (
        <span key={c.key} class={c.numeric ? 'numeric' : ''} title={c.exact?.(row, names) ?? text}>
          {/* A list has no heads that screen readers could name. */}
          <span class="visually-hidden">{c.title} </span>
          {c.key === 'line' || c.key === 'layer' ? <Label text={text} /> : text}
        </span>
      );
    });
  };
  const items = streamedItems(SAVED.columns, async function* () {
    for (let first = 0; first < total.count; ) {
      const page = await source.ask(file, device, { question: 'allocations', ...asked, first, count: SAVED_AT_ONCE });
      const rows = Array.from(page.id, (_, at) => SAVED.row(rowOf(page, at, recording), names, recording.origin_us));
      if (rows.length === 0) return;
      yield rows;
      first += rows.length;
    }
  });
  return (
    <section
      class="panel allocations-view"
      aria-label="Allocations"
      aria-busy={pages.pending}
      data-rows={total.count}
      data-bytes={total.bytes}
    >
      <header class="panel-head toolbar">
        <h2>
          {count(total.count)} {total.count === 1 ? 'allocation' : 'allocations'}
        </h2>
        <span class="quiet" title={exactly(total.bytes)}>
          {bytes(total.bytes)} in total{query.value === null ? '' : ', only matches'}
        </span>
        <Segmented
          label="Show"
          choices={[
            { value: 'all', label: 'All' },
            { value: 'live', label: `Live ${momentText(shownMoment.value, recording)}` },
            ...(interval.value ? [{ value: 'span' as const, label: 'Allocated in the interval' }] : []),
          ]}
          value={among.value === 'span' && !interval.value ? 'all' : among.value}
          choose={(which) => (among.value = which)}
        />
        <span class="spring" />
        {total.count > 0 && <SaveMenu name="allocations" items={items} />}
      </header>
      {total.count === 0 ? (
        <Empty title="No allocation matches.">
          <p>Search for something else, or show all.</p>
        </Empty>
      ) : (
        <Split
          name="allocation"
          pane="selected allocation"
          panes="beside"
          sized="second"
          initial="min(360px, 40%)"
          least={160}
          first={
            <div class="allocations-box">
              <div
                class="allocations-table"
                style={{ '--tracks': columns.map(({ width }) => width).join(' ') }}
                onDblClick={zoomToSelected}
              >
                <Head columns={columns} />
                <VirtualList
                  id="allocation"
                  label="Allocations: arrows, PageUp, PageDown, Home and End choose, Enter zooms the timeline to the allocation"
                  count={total.count}
                  rowHeight={23}
                  chosen={chosenRow}
                  choose={choose}
                  enter={zoomToSelected}
                  row={line}
                  seen={pages.need}
                  answered={pages.answered}
                />
              </div>
            </div>
          }
          second={
            find === null ? null : (
              <div class="details" role="region" aria-label="Details" tabIndex={0}>
                <AllocationDetails />
              </div>
            )
          }
        />
      )}
    </section>
  );
}

function Head({ columns }: { columns: Column[] }) {
  return (
    <div class="allocations-head" role="group" aria-label="Sort by">
      {columns.map(({ key, title, hint, numeric }) => {
        const isSorted = sortBy.value === key;
        const isAscending = ascending.value !== null;
        const sort = () =>
          batch(() => {
            // Numbers start with the largest, texts with the first in alphabetical order.
            ascending.value = (isSorted ? !isAscending : !numeric) ? 'ascending' : null;
            sortBy.value = key;
          });
        const order = isSorted ? (isAscending ? ', ascending' : ', descending') : '';
        return (
          <button
            key={key}
            type="button"
            class={numeric ? 'numeric' : ''}
            aria-pressed={isSorted}
            aria-label={`${title}${order}`}
            title={`Sort by ${hint}`}
            onClick={sort}
          >
            {title}
            <span aria-hidden="true">{isSorted ? (isAscending ? ' ↑' : ' ↓') : ''}</span>
          </button>
        );
      })}
    </div>
  );
}

/** Rows per request when all are saved. */
const SAVED_AT_ONCE = 20_000;

/** Names of the origins in saved tables: those of ORIGINS, as written by `vramscope export`. */
const SAVED_ORIGINS = ['recorded', 'end_state', 'free_only'];

/** The saved table. Columns that `vramscope export --what allocations` also has share its names and values. */
const SAVED = {
  columns: [
    'allocation',
    'address',
    'version',
    'requested_bytes',
    'block_bytes',
    'origin',
    'alloc_event',
    'free_event',
    'alloc_time_us',
    'free_time_us',
    'lifetime_events',
    'lifetime_us',
    'stream',
    'pool',
    'category',
    'line',
    'layer',
    'step',
    'region',
  ],
  row: (r: AllocationRow, names: Names | null, origin: number | null): Cell[] => {
    const time = (us: number | null) => (us === null || origin === null ? null : origin + us);
    return [
      r.id,
      `0x${r.address.toString(16)}`,
      r.version,
      r.requested,
      r.bytes,
      SAVED_ORIGINS[r.origin] ?? null,
      r.made,
      r.freed,
      time(r.madeUs),
      time(r.freedUs),
      lived(r),
      livedUs(r),
      `0x${(r.tags?.stream ?? 0).toString(16)}`,
      r.tags?.pool?.join(':') ?? null,
      r.purpose?.category ?? null,
      ownLabel(names, r.stack),
      r.tags?.layer ?? null,
      r.step === null ? null : r.step + 1,
      r.region,
    ];
  },
};
