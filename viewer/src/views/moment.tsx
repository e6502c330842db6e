// What is live at a moment and who allocated it, or what changed between two moments.

import { useMemo, useState } from 'preact/hooks';
import { byCategory } from '../live/categories';
import { difference, type Change } from '../live/difference';
import { group, sum, type Group } from '../live/group';
import { matchingEntries } from '../live/match';
import { tree } from '../live/tree';
import { useAnswer } from '../parts/answer';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../parts/columns';
import { CategoryBar } from '../parts/category-bar';
import { Button, Check, Empty, Segmented, Waiting } from '../parts/controls';
import { CounterRow } from '../parts/counters';
import { momentName, momentText, useCurrent, type Current } from '../parts/current';
import { FlameGraph } from '../parts/flame-graph';
import { GROUP_CHOICES, groupTitle } from '../parts/grouping';
import { StackTrace } from '../parts/stack-trace';
import { Table } from '../parts/table';
import { query } from '../search/found';
import { NONE, type Live } from '../source/source';
import { groupBy, tellsCategories, type GroupBy } from '../state/grouping';
import { against, moment, shownMoment } from '../state/moment';
import { source } from '../state/recordings';
import { bytes, count, signedBytes } from '../text/units';

export function MomentView() {
  const shown = useCurrent();
  if (!shown) return null;
  return <Moment {...shown} />;
}

function useLive(shown: Current, at: number | null) {
  const { file, device } = shown;
  return useAnswer(shown.scope, String(at), at === null ? null : (unwanted) => source.live(file, device, at, unwanted));
}

function Moment(shown: Current) {
  const [allFrames, setAllFrames] = useState(false);
  const [chosen, setChosen] = useState<string | null>(null);
  const now = useLive(shown, shownMoment.value);
  const then = useLive(shown, against.value);
  const live = now.value;
  const before = against.value === null ? null : then.value;
  const { names, recording } = shown;
  const by = groupBy.value;

  const searchQuery = query.value;
  const matches = useMemo(() => live && matchingEntries(searchQuery, live), [searchQuery, live]);
  const groups = useMemo(
    () => (live && names ? group(live, by, names, recording, matches) : []),
    [live, by, names, recording, matches],
  );
  const changes = useMemo(() => {
    if (!before || !names) return null;
    return difference(group(before, by, names, recording, matchingEntries(searchQuery, before)), groups);
  }, [before, groups]);
  const root = useMemo(
    () => (live && names ? tree(live, names, allFrames, before, matches) : null),
    [live, before, names, allFrames, matches],
  );

  if (!live || !names || !root) return <Waiting error={now.error} what="Reading what is live at this moment." />;
  const stack = stackOf(groups, changes, chosen);
  const total = sum(live.bytes);
  return (
    <div
      class="panel moment-view"
      data-moment={live.moment}
      data-total={total}
      {...(before ? { 'data-against': before.moment } : {})}
      aria-busy={now.pending || then.pending}
    >
      <Head shown={shown} live={live} before={before} total={total} allFrames={allFrames} setAllFrames={setAllFrames} />
      {live.stack.length === 0 && !before ? (
        <Empty title="Nothing is allocated at this moment.">
          <p>Choose another in the timeline.</p>
        </Empty>
      ) : (
        <>
          <FlameGraph
            key={shown.scope}
            name={`flame-${live.moment}`}
            label="Call tree"
            root={root}
            compared={before !== null}
            searched={matches !== null}
          />
          <div class="table-and-stack">
            {changes ? (
              <ChangeTable live={live} by={by} changes={changes} chosen={chosen} choose={setChosen} />
            ) : (
              <GroupTable live={live} by={by} groups={groups} total={total} chosen={chosen} choose={setChosen} />
            )}
            <div class="stack-pane" role="region" aria-label="Stack of the chosen row" tabIndex={0}>
              <StackTrace file={shown.file} stack={stack} heading="Stack that holds most of it" />
            </div>
          </div>
        </>
      )}
    </div>
  );
}

/** The stack of the chosen row, or of the first where none is chosen. */
function stackOf(groups: readonly Group[], changes: readonly Change[] | null, chosen: string | null): number | null {
  if (changes) {
    const c = changes.find((c) => c.key === chosen) ?? changes[0];
    return c ? (c.stackAfter === NONE ? c.stackBefore : c.stackAfter) : null;
  }
  return (groups.find((g) => g.key === chosen) ?? groups[0])?.stack ?? null;
}

interface HeadProps {
  shown: Current;
  live: Live;
  before: Live | null;
  total: number;
  allFrames: boolean;
  setAllFrames: (all: boolean) => void;
}

function Head({ shown, live, before, total, allFrames, setAllFrames }: HeadProps) {
  const { recording } = shown;
  const peak = recording.peaks.allocated.moment;
  return (
    <header class="panel-head">
      <div class="panel-title">
        <h2>
          {bytes(total)} allocated {momentText(live.moment, recording)}
        </h2>
        <span class="quiet">
          {live.moment === peak && 'the peak of allocated bytes, '}
          {count(sum(live.count))} blocks
        </span>
        {before && (
          <span class="compared">
            {before.moment === live.moment
              ? 'kept to compare with: choose another moment in the timeline'
              : `compared with ${momentName(before.moment, recording)}: ${signedBytes(total - before.counters.allocated)}`}
          </span>
        )}
      </div>
      <CounterRow counters={live.counters} />
      {tellsCategories(recording) && <CategoryBar sums={byCategory(live, recording)} />}
      <div class="toolbar">
        <Segmented label="Group by" choices={GROUP_CHOICES} value={groupBy.value} choose={(g) => (groupBy.value = g)} />
        <Check label="All frames" checked={allFrames} set={setAllFrames} />
        <span class="spring" />
        <CompareWith moment={live.moment} events={recording.events} peak={peak} />
      </div>
    </header>
  );
}

/** Buttons that set the moment to compare with, or remove it. */
function CompareWith({ moment: at, events, peak }: { moment: number; events: number; peak: number }) {
  const set = (to: number | null) => (against.value = to);
  if (against.value !== null) {
    const second = against.value;
    const swap = () => {
      against.value = at;
      moment.value = second;
    };
    return (
      <div class="button-row" role="group" aria-label="Comparison">
        <Button onClick={swap}>Swap the moments</Button>
        <Button onClick={() => set(null)}>Stop comparing</Button>
      </div>
    );
  }
  return (
    <div class="button-row" role="group" aria-label="Compare with">
      <span class="quiet">Compare with</span>
      <Button onClick={() => set(at)}>this moment</Button>
      {at !== 0 && <Button onClick={() => set(0)}>the start</Button>}
      {at !== peak && <Button onClick={() => set(peak)}>the peak</Button>}
      {at !== events && <Button onClick={() => set(events)}>the end</Button>}
    </div>
  );
}

interface RowsProps {
  live: Live;
  by: GroupBy;
  chosen: string | null;
  choose: (key: string) => void;
}

function groupColumns(by: GroupBy, total: number): Column<Group>[] {
  return [
    textColumn(by, groupTitle(by), (g) => g.label, true),
    bytesColumn('allocated_bytes', 'Allocated', (g) => g.bytes, total),
    {
      key: 'share_percent',
      title: 'Share',
      numeric: true,
      value: (g) => (total === 0 ? null : (g.bytes * 100) / total),
      text: (g) => (total === 0 ? '–' : `${((g.bytes * 100) / total).toFixed(1)}%`),
      exact: (g) => `${g.bytes.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} bytes`,
    },
    bytesColumn('requested_bytes', 'Requested', (g) => g.requested),
    countColumn('blocks', 'Blocks', (g) => g.count),
  ];
}

function GroupTable(p: RowsProps & { groups: Group[]; total: number }) {
  const columns = useMemo(() => groupColumns(p.by, p.total), [p.by, p.total]);
  return (
    <Table
      name={`moment-${p.live.moment}`}
      caption={`Allocated by ${p.by}`}
      columns={columns}
      rows={p.groups}
      rowKey={(g) => g.key}
      sortBy="allocated_bytes"
      chosen={p.chosen ?? p.groups[0]?.key ?? null}
      choose={(g) => p.choose(g.key)}
      marked={(g) => g.found}
    />
  );
}

function changeColumns(by: GroupBy): Column<Change>[] {
  return [
    textColumn(by, groupTitle(by), (c) => c.label, true),
    changeColumn('change_bytes', 'Change', (c) => c.bytes),
    bytesColumn('before_bytes', 'Before', (c) => c.before),
    bytesColumn('after_bytes', 'After', (c) => c.after),
    countColumn('blocks_before', 'Blocks before', (c) => c.countBefore),
    countColumn('blocks_after', 'Blocks after', (c) => c.countAfter),
  ];
}

function ChangeTable(p: RowsProps & { changes: Change[] }) {
  const columns = useMemo(() => changeColumns(p.by), [p.by]);
  return (
    <Table
      name={`moment-${against.value}-to-${p.live.moment}`}
      caption={`Change by ${p.by}`}
      columns={columns}
      rows={p.changes}
      rowKey={(c) => c.key}
      sortBy="change_bytes"
      chosen={p.chosen ?? p.changes[0]?.key ?? null}
      choose={(c) => p.choose(c.key)}
      marked={(c) => c.found}
    />
  );
}
