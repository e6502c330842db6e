// The SQL console: queries over the open recordings, answered by the command that serves the page.

import { batch } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { useAnswer } from '../../parts/answer';
import { Empty, Segmented, Waiting } from '../../parts/controls';
import { Sentence } from '../../parts/sentence';
import { Split } from '../../parts/split';
import { Stopped, UnderWay, useStoppable } from '../../parts/stoppable';
import { Table } from '../../parts/table';
import { onlyQuery } from '../../search/found';
import type { Console } from '../../source/engine';
import type { SqlAnswer } from '../../source/source';
import { moment } from '../../state/moment';
import { chooseMoment, showBetween, zoomToAllocation } from '../../state/moves';
import { choose } from '../../state/choice';
import { isToRead } from '../../state/files';
import { device, file, view } from '../../state/place';
import { recordings, source } from '../../state/recordings';
import { selected } from '../../state/selection';
import { chooseInterval, interval } from '../../state/interval';
import { chart, runs, sql, type Chart } from './state';
import { count } from '../../text/units';
import { ResultChart } from './chart';
import { Editor } from './editor';
import { rowCount, tableColumns, targetOf, type Row, type Target } from './result';

export function View() {
  const { console } = source;
  if (console) return <SqlConsole console={console} />;
  return (
    <NoConsole>
      The console needs the served page: <code>vramscope view FILE</code>
    </NoConsole>
  );
}

function NoConsole({ children }: { children: ComponentChildren }) {
  return (
    <div class="panel sql-view">
      <Empty title="This page has no SQL console.">
        <p>{children}</p>
      </Empty>
    </div>
  );
}

function SqlConsole({ console }: { console: Console }) {
  const tables = useAnswer('console', 'tables', () => console.tables());
  const open = recordings.value?.map((one, at) => (one ? at : '')).join() ?? '';
  const query = sql.value;
  const { answer, stopped, stop, again } = useStoppable(
    'console',
    `${runs.value} ${open} ${query}`,
    query !== '' && tables.value?.missing === null ? (unwanted) => console.answer(query, unwanted) : null,
  );
  if (!tables.value) return <Waiting error={tables.error} what="Reading the tables." />;
  const { missing } = tables.value;
  if (missing !== null)
    return (
      <NoConsole>
        <Sentence text={`${missing.charAt(0).toUpperCase()}${missing.slice(1)}.`} />
      </NoConsole>
    );
  const result = answer.pending ? null : answer.value;
  return (
    <div
      class="panel sql-view"
      aria-busy={query !== '' && !stopped && answer.pending}
      {...(result && { 'data-rows': rowCount(result) })}
    >
      <h2 class="visually-hidden">SQL</h2>
      <Split
        name="sql"
        pane="query"
        panes="beside"
        sized="first"
        initial="min(440px, 40%)"
        least={220}
        first={<Editor tables={tables.value.tables} error={result?.error ?? null} />}
        second={
          <div class="sql-result">
            {query === '' ? (
              <Empty title="No query was run.">
                <p>Run a query, or choose an example. Queries only read the open recordings.</p>
              </Empty>
            ) : stopped ? (
              <Stopped again={again} />
            ) : answer.error ? (
              <Waiting error={answer.error} what="" />
            ) : result?.error ? (
              <Empty title="The query failed." />
            ) : result ? (
              <Result key={runs.value} answer={result} />
            ) : (
              <UnderWay what="Running the query" stop={stop} />
            )}
          </div>
        }
      />
    </div>
  );
}

const KINDS: readonly { value: Chart; label: string }[] = [
  { value: 'table', label: 'Table' },
  { value: 'bars', label: 'Bars' },
  { value: 'line', label: 'Line' },
];

function Result({ answer }: { answer: SqlAnswer }) {
  const rows = useMemo(() => Array.from({ length: rowCount(answer) }, (_, row) => row), [answer]);
  const columns = useMemo(() => tableColumns(answer.columns), [answer]);
  const target = (row: Row) => targetOf(answer, row);
  const go = (row: Row) => {
    const to = target(row);
    if (to) show(to);
  };
  const marked = (row: Row) => {
    const to = target(row);
    return to !== null && to.allocation !== null && to.allocation === selected.value && to.file === file.value;
  };
  return (
    <>
      <div class="toolbar sql-toolbar">
        <Segmented label="Show" choices={KINDS} value={chart.value} choose={(kind) => (chart.value = kind)} />
        {rows.length > 0 && target(0) && <span class="quiet">Click a row to select it in the timeline.</span>}
      </div>
      {answer.is_cut && (
        <p class="sql-note" role="status">
          Only the first {count(rows.length)} rows. <code>vramscope query</code> writes all.
        </p>
      )}
      {answer.notes.map((note) => (
        <p key={note} class="sql-note">
          {note}
        </p>
      ))}
      {chart.value === 'table' ? (
        <Table
          name="query"
          caption="Result"
          columns={columns}
          rows={rows}
          rowKey={(row) => row}
          enter={go}
          marked={marked}
          empty="The result has no rows."
        />
      ) : (
        <ResultChart answer={answer} kind={chart.value} choose={rows.length > 0 && target(0) ? go : null} />
      )}
    </>
  );
}

/** Selects an allocation, a moment or an interval in the timeline; reads the recording of a rank first. */
function show({ file: to, device: number, allocation, moment: at, span: between }: Target): void {
  const found = (recordings.value?.[to]?.devices ?? []).findIndex((one) => one.device === number);
  const isShown = to === file.value && (found < 0 || found === device.value);
  if (!isShown) choose(to, found < 0 ? null : found);
  if (isToRead(to)) {
    // The recording is read when the page shows it.
    batch(() => {
      selected.value = allocation;
      moment.value = at;
      interval.value = between;
      view.value = 'timeline';
    });
    return;
  }
  if (between) {
    chooseInterval(between);
    showBetween(between);
  }
  if (at !== null) chooseMoment(at);
  if (allocation === null) return;
  selected.value = allocation;
  zoomToAllocation(allocation, onlyQuery.value);
}
