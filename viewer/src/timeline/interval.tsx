// The allocations and frees of the chosen interval, or of the part that the timeline shows, by group.

import { useMemo, useState } from 'preact/hooks';
import { momentsBetween } from '../draw/hit';
import { restedPicture } from '../draw/shown';
import type { Range } from '../numbers/scale';
import { useAnswer } from '../parts/answer';
import { bytesColumn, changeColumn, textColumn, type Column } from '../parts/columns';
import { Button, Select, Waiting } from '../parts/controls';
import { useCurrent, type Current } from '../parts/current';
import { GROUP_CHOICES, groupTitle } from '../parts/grouping';
import { MEASURES, rowsOf, type Measure, type IntervalRow } from './interval-rows';
import { StackTrace } from '../parts/stack-trace';
import { Table } from '../parts/table';
import { Facts } from '../parts/tooltip';
import { query, queryNumber } from '../search/found';
import { searchOf } from './groups';
import type { Amount, By, IntervalAnswer, SpentAmounts, GroupsOfInterval } from '../source/source';
import { groupBy } from '../state/grouping';
import { chooseMoment } from '../state/moves';
import { view } from '../state/place';
import { source } from '../state/recordings';
import { search } from '../state/search';
import { interval, spanCompared } from '../state/interval';
import { range } from '../state/window';
import { bytes, count, duration, signedBytes } from '../text/units';

/** Returns the moments of the chosen interval, or of the shown part; null until the timeline has a picture. */
function useMoments(events: number): Range | null {
  const picture = restedPicture.value?.picture;
  if (interval.value) return interval.value;
  if (!range.value) return [0, events];
  if (!picture) return null;
  const [from, to] = momentsBetween(picture, [picture.window.from, picture.window.to]);
  const within = (at: number) => Math.min(Math.max(Math.ceil(at), 0), events);
  return [within(from), within(to)];
}

/** Returns the allocations and frees of the interval, and those of the same part of the previous step on request. */
function useSpent({ file, device, scope, recording }: Current) {
  const moments = useMoments(recording.events);
  const [by, finds, compared] = [groupBy.value, query.value, spanCompared.value !== null];
  const key = [moments, by, compared, recording.purposes !== null, queryNumber.value].join(' ');
  const ask = async (unwanted: AbortSignal, [from, to]: Range) => {
    const of = (before: Range | null) =>
      source.ask(file, device, { question: 'interval', from, to, by, search: finds, before }, unwanted);
    const plain = await of(null);
    const spent = compared && plain.earlier ? await of([plain.earlier.from, plain.earlier.to]) : plain;
    return { spent, rows: rowsOf(spent), by };
  };
  return useAnswer(scope, key, moments && ((unwanted) => ask(unwanted, moments)));
}

export function SpanDetails() {
  const shown = useCurrent();
  if (!shown) return null;
  return <SpanAnswer {...shown} />;
}

function SpanAnswer(shown: Current) {
  const answer = useSpent(shown);
  if (!answer.value) return <Waiting error={answer.error} what="Reading the allocations of this part." />;
  const { spent, rows, by } = answer.value;
  const { now, before } = spent;
  return (
    <section
      class="details-part"
      aria-label={interval.value ? 'Chosen interval' : 'Shown part'}
      aria-busy={answer.pending}
      data-span={`${now.from}.${now.to}`}
    >
      <header class="details-head">
        <h2>{now.headline}</h2>
        {interval.value && <Button onClick={() => (interval.value = null)}>Clear</Button>}
      </header>
      <Facts facts={factsOf(now, before)} />
      <div class="details-actions">
        <Button onClick={() => chooseMoment(now.highest_moment)}>Go to the peak</Button>
        <Compare spent={spent} />
      </div>
      {query.value !== null && <p class="quiet">{foundText(now)}</p>}
      <Groups key={shown.scope} shown={shown} now={now} compared={before !== null} rows={rows} by={by} />
    </section>
  );
}

/** Starts or stops the comparison with the previous step. */
function Compare({ spent: { earlier, before } }: { spent: IntervalAnswer }) {
  if (before) return <Button onClick={() => (spanCompared.value = null)}>Stop comparing</Button>;
  if (!earlier) return null;
  return <Button onClick={() => (spanCompared.value = 'before')}>Compare with {earlier.title}</Button>;
}

const foundText = ({ all, found }: GroupsOfInterval) =>
  `${bytes(found.allocated.bytes)} of ${bytes(all.allocated.bytes)} allocated match the search; the table shows only matches.`;

type Fact = [name: string, value: string, exact: string];

const inBlocks = (of: Amount) =>
  of.count === 0 ? bytes(0) : `${bytes(of.bytes)} in ${count(of.count)} ${of.count === 1 ? 'block' : 'blocks'}`;
const exactly = (n: number) => `${count(n)} bytes`;

function factsOf(now: GroupsOfInterval, before: GroupsOfInterval | null): Fact[] {
  const fact = (name: string, of: keyof SpentAmounts): Fact => [
    name,
    before ? `${bytes(now.all[of].bytes)} (${signedBytes(now.all[of].bytes - before.all[of].bytes)})` : inBlocks(now.all[of]),
    exactly(now.all[of].bytes),
  ];
  const rise = now.highest - now.all.before.bytes;
  const facts: Fact[] = [
    fact('at the start', 'before'),
    fact('allocated', 'allocated'),
    fact('freed', 'freed'),
    fact('… from before', 'freed_from_before'),
    fact('… temporary', 'temporary'),
    fact('retained', 'survived'),
    [
      'peak',
      before ? `${bytes(now.highest)} (${signedBytes(now.highest - before.highest)})` : bytes(now.highest),
      exactly(now.highest),
    ],
    ['rise', bytes(rise), exactly(rise)],
    fact('at the end', 'after'),
  ];
  if (now.lasted_us !== null) facts.push(['took', duration(now.lasted_us), `${count(now.lasted_us)} us`]);
  if (before) facts.unshift(['compared with', before.title, before.headline]);
  return facts;
}

const MEASURE_CHOICES = Object.entries(MEASURES).map(([value, label]) => ({ value: value as Measure, label }));

function columnsOf(by: By, measure: Measure, rows: IntervalRow[], compared: boolean): Column<IntervalRow>[] {
  const [name, title] = [textColumn<IntervalRow>(by, groupTitle(by), (row) => row.label, true), 'Bytes'];
  const all = rows.reduce((sum, row) => sum + row.now[measure], 0);
  const value = bytesColumn<IntervalRow>(`${measure}_bytes`, title, (row) => row.now[measure], all);
  if (!compared) return [name, value];
  const before = (row: IntervalRow) => row.before?.[measure] ?? 0;
  const change = changeColumn<IntervalRow>(`${measure}_change_bytes`, 'Change', (row) => row.now[measure] - before(row));
  return [name, { ...change, exact: (row) => `${exactly(row.now[measure])} instead of ${exactly(before(row))}` }];
}

interface GroupsProps {
  shown: Current;
  now: GroupsOfInterval;
  compared: boolean;
  rows: IntervalRow[];
  by: By;
}

/** A table of groups, and the chosen group's figures, stack, and a button to search for it. */
function Groups({ shown: { names, file }, now, compared, rows, by }: GroupsProps) {
  const [wanted, setMeasure] = useState<Measure | null>(null);
  // Without allocations, the table lists the groups that hold memory.
  const measure = wanted ?? (now.all.allocated.bytes > 0 || compared ? 'allocated' : 'at_highest');
  const [chosen, setChosen] = useState<string | null>(null);
  const columns = useMemo(() => columnsOf(by, measure, rows, compared), [by, measure, rows, compared]);
  const told = useMemo(() => rows.filter((row) => row.now[measure] > 0 || (row.before?.[measure] ?? 0) > 0), [rows, measure]);
  const row = told.find((one) => one.key === chosen);
  const words = row && names && searchOf(by, row, names);
  return (
    <>
      <div class="details-actions">
        <Select label="Group by" choices={GROUP_CHOICES} value={groupBy.value} choose={(to) => (groupBy.value = to)} />
        <Select label="Measure" choices={MEASURE_CHOICES} value={measure} choose={setMeasure} />
      </div>
      <Table
        key={`${measure} ${compared}`}
        name={`events-${now.from}-to-${now.to}-by-${by}`}
        caption={`By ${by}, ${MEASURES[measure]}`}
        columns={columns}
        rows={told}
        rowKey={(one) => one.key}
        sortBy={compared ? `${measure}_change_bytes` : `${measure}_bytes`}
        chosen={row?.key ?? null}
        choose={(one) => setChosen(one.key)}
        empty="Nothing."
      />
      {row && (
        <section class="details-group" aria-label="Chosen group" data-group={row.key}>
          <h3>{row.label}</h3>
          <Facts facts={MEASURE_CHOICES.map(({ value, label }) => [label, bytes(row.now[value]), exactly(row.now[value])])} />
          {words && (
            <div class="details-actions">
              <Button onClick={() => (search.value = words)}>Search for this group</Button>
            </div>
          )}
          <StackTrace stack={row.stack} file={file} heading="Stack that allocated the most" />
        </section>
      )}
    </>
  );
}

/** The chosen interval in one line, below the timeline of the other views. */
export function SpanBar() {
  const shown = useCurrent();
  if (!shown || !interval.value) return null;
  return <SpanLine {...shown} />;
}

function SpanLine(shown: Current) {
  const now = useSpent(shown).value?.spent.now;
  return (
    <div class="selection-bar" {...(now ? { 'data-span': `${now.from}.${now.to}` } : {})}>
      <span class="selection-text">{now?.headline}</span>
      <button type="button" class="link-button" onClick={() => (view.value = 'timeline')}>
        Show its allocations
      </button>
      <button type="button" class="link-button" aria-label="Clear the interval" onClick={() => (interval.value = null)}>
        Clear
      </button>
    </div>
  );
}
