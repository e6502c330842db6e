// Live memory at a moment by group, or the changes between two moments.

import { batch } from '@preact/signals';
import { useMemo, useState } from 'preact/hooks';
import type { ColorKeys } from '../../draw/color-keys';
import { useAnswer } from '../../parts/answer';
import { CallTree } from './call-tree';
import { callTree } from '../../parts/calls';
import { bytesColumn, changeColumn, countColumn, type Column } from '../../parts/columns';
import { CategoryBar } from './category-bar';
import { Button, Check, Empty, Segmented, Select, Waiting } from '../../parts/controls';
import { CounterRow } from '../../parts/counters';
import { momentName, momentText, useCurrent, type Current } from '../../parts/current';
import { CALL_CHOICES, GROUP_CHOICES, colorsOfGroups, groupColumn } from '../../parts/grouping';
import { groupsOf, mostChanged, type Group } from '../../parts/holders';
import { Split } from '../../parts/split';
import { StackTrace } from '../../parts/stack-trace';
import { Table } from '../../parts/table';
import { onlyQuery, query, queryText } from '../../search/found';
import { NONE, type By, type Device, type Live } from '../../source/source';
import { callTreeAs, callZoom, callsOf, colorBy, groupBy, isInverted, tellsCategories } from '../../state/grouping';
import { against, moment, shownMoment } from '../../state/moment';
import { source } from '../../state/recordings';
import { transforms, collapseLibraries, librariesCollapsed } from '../../state/transforms';
import { bytes, capital, count, share, signedBytes } from '../../text/units';

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  return <Moment {...shown} />;
}

/** Requests the live memory, with the parameters of the request. Of two compared moments, the later one comes after. */
function useLive({ file, device, scope, names, recording }: Current) {
  const [shown, second, by, search] = [shownMoment.value, against.value, groupBy.value, query.value];
  const [before, at] = second === null ? [null, shown] : [Math.min(shown, second), Math.max(shown, second)];
  const [calls, inverted] = [callsOf.value, isInverted.value];
  const only_found = onlyQuery.value !== null;
  const zoom = [...(callZoom.value ?? [])];
  const transformed = [...transforms.value];
  const key = [
    shown,
    second,
    by,
    zoom.join('.'),
    calls,
    inverted,
    only_found,
    names !== null,
    recording.purposes !== null,
    queryText.value,
    JSON.stringify(transformed),
  ].join(' ');
  return useAnswer(scope, key, async (unwanted) => {
    const live = await source.ask(
      file,
      device,
      { question: 'live', moment: at, by, calls, inverted, before, search, only_found, zoom, transforms: transformed },
      unwanted,
    );
    const groups = groupsOf(live.holders);
    return {
      ...live,
      groups,
      shown,
      second,
      by,
      searched: search !== null,
      filtered: only_found,
    };
  });
}

function Moment(shown: Current) {
  const { names } = shown;
  const [chosen, setChosen] = useState<string | null>(null);
  const live = useLive(shown);
  const calls = live.value?.calls;
  const root = useMemo(() => (calls && names ? callTree(calls, names) : null), [calls, names]);

  if (!live.value || !root || !names) return <Waiting error={live.error} what="Reading the live memory at this moment." />;
  const { holders, groups, by, found_bytes: found, searched, filtered } = live.value;
  const { now, before } = holders;
  const row = groups.find((g) => g.key === chosen) ?? mostChanged(groups);
  const rows = { by, now: now.moment, groups, chosen: row?.key ?? null, choose: setChosen };
  return (
    <div
      class="panel moment-view"
      data-moment={live.value.shown}
      data-total={now.counters.allocated}
      {...(searched ? { 'data-found': found } : {})}
      {...(before ? { 'data-against': live.value.second } : {})}
      aria-busy={live.pending}
    >
      <Head shown={shown} live={live.value} searched={searched} change={before && filtered ? root.bytes - root.before : null} />
      {groups.length === 0 ? (
        <Empty title={filtered ? 'No match is allocated at this moment.' : 'Nothing is allocated at this moment.'}>
          <p>Choose another in the timeline{filtered ? ', or show more than matches' : ''}.</p>
        </Empty>
      ) : (
        <Split
          name="flame"
          pane="call tree"
          panes="above"
          sized="first"
          initial="auto"
          most={callTreeAs.value === 'table' ? '60%' : '45%'}
          first={
            <CallTree
              key={shown.scope}
              moment={now.moment}
              shows={`call tree of allocated bytes ${momentText(now.moment, shown.recording)}`}
              root={root}
              names={names}
              compared={before !== null}
              searched={searched && !filtered}
              {...(filtered ? { whole: now.counters.allocated } : {})}
            />
          }
          second={
            <Split
              name="stack"
              pane="stack"
              panes="beside"
              sized="second"
              initial="min(360px, 40%)"
              first={
                before ? (
                  <ChangeTable {...rows} before={before.moment} recording={shown.recording} />
                ) : (
                  <GroupTable {...rows} total={now.counters.allocated} found={filtered ? found : null} />
                )
              }
              second={
                <div class="stack-pane" role="region" aria-label="Stack of the chosen row" tabIndex={0}>
                  <StackTrace file={shown.file} stack={row ? stackOf(row) : null} heading="Stack that holds the most" />
                </div>
              }
            />
          }
        />
      )}
    </div>
  );
}

const stackOf = (group: Group) => (group.stack === NONE ? group.stackBefore : group.stack);

interface HeadProps {
  shown: Current;
  live: Live;
  searched: boolean;
  /** The change of the matches alone, if these are shown; null otherwise. */
  change: number | null;
}

function Head({ shown: { recording }, live, searched, change }: HeadProps) {
  const { categories, found_bytes: found } = live;
  const { now, before } = live.holders;
  const total = now.counters.allocated;
  const peak = recording.peaks.allocated.moment;
  return (
    <header class="panel-head">
      <div class="panel-title">
        <h2>
          {before && before.moment !== now.moment
            ? `${signedBytes(total - before.counters.allocated)} from ${momentName(before.moment, recording)} to ${momentName(now.moment, recording)}`
            : `${bytes(total)} allocated ${momentText(now.moment, recording)}`}
        </h2>
        <span class="quiet">
          {before && before.moment !== now.moment
            ? `${bytes(before.counters.allocated)}, then ${bytes(total)} allocated`
            : `${now.moment === peak ? 'the peak of allocated bytes, ' : ''}${count(live.blocks)} blocks`}
        </span>
        {change !== null && <span class="compared">{signedBytes(change)} in matches</span>}
        {searched && !before && (
          <span class="compared" title={`${count(found)} bytes`}>
            {bytes(found)} of {bytes(total)} match, {share(found, total)}, in {count(live.found_blocks)} blocks
          </span>
        )}
        {before?.moment === now.moment && (
          <span class="compared">saved for comparison: choose another moment in the timeline</span>
        )}
        <span class="spring" />
        <CounterRow counters={now.counters} />
      </div>
      {/* Pictures colored by category have the same sums in their legend. */}
      {tellsCategories(recording) && categories && colorBy.value !== 'category' && <CategoryBar held={categories} />}
      <div class="toolbar">
        <Select label="Group by" choices={GROUP_CHOICES} value={groupBy.value} choose={(g) => (groupBy.value = g)} />
        <Segmented
          label="Calls"
          choices={CALL_CHOICES}
          value={callsOf.value}
          choose={(of) => showCalls(() => (callsOf.value = of))}
        />
        <Check label="Inverted" checked={isInverted.value} set={(inverted) => showCalls(() => (isInverted.value = inverted))} />
        <Check label="Libraries collapsed" checked={librariesCollapsed()} set={collapseLibraries} />
        <span class="spring" />
        <CompareWith moment={shownMoment.value} events={recording.events} peak={peak} />
      </div>
    </header>
  );
}

/** Another tree has other nodes to zoom to. */
const showCalls = (change: () => void) =>
  batch(() => {
    change();
    callZoom.value = null;
  });

/** Buttons that set or remove the moment to compare with. */
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
  by: By;
  now: number;
  groups: Group[];
  chosen: string | null;
  choose: (key: string) => void;
}

/** A column with each group's share of a total. */
const shareColumn = (key: string, title: string, whole: number): Column<Group> => ({
  key,
  title,
  numeric: true,
  value: (g) => (whole === 0 ? null : (g.bytes * 100) / whole),
  text: (g) => (whole === 0 ? '–' : share(g.bytes, whole)),
  exact: (g) => `${g.bytes.toLocaleString('en-US')} of ${whole.toLocaleString('en-US')} bytes`,
});

/** `found` is the total of all matches, if only these are shown. */
function groupColumns(by: By, color: ColorKeys['color'] | null, total: number, found: number | null): Column<Group>[] {
  return [
    groupColumn(by, color),
    bytesColumn('allocated_bytes', 'Allocated', (g) => g.bytes, found ?? total),
    ...(found === null ? [] : [shareColumn('share_of_matches_percent', 'Of matches', found)]),
    shareColumn('share_percent', found === null ? 'Share' : 'Of all', total),
    bytesColumn('requested_bytes', 'Requested', (g) => g.requested),
    countColumn('blocks', 'Blocks', (g) => g.count),
  ];
}

function GroupTable(p: RowsProps & { total: number; found: number | null }) {
  const color = colorsOfGroups(p.by);
  const columns = useMemo(() => groupColumns(p.by, color, p.total, p.found), [p.by, color, p.total, p.found]);
  return (
    <Table
      name={`moment-${p.now}`}
      caption={`Allocated by ${p.by}`}
      columns={columns}
      rows={p.groups}
      rowKey={(g) => g.key}
      sortBy="allocated_bytes"
      chosen={p.chosen}
      choose={(g) => p.choose(g.key)}
      marked={(g) => g.found}
    />
  );
}

/** `first` and `second` are the names of the moments, the earlier one first. */
function changeColumns(by: By, color: ColorKeys['color'] | null, first: string, second: string): Column<Group>[] {
  return [
    groupColumn(by, color),
    changeColumn('change_bytes', 'Change', (g) => g.bytes - g.before),
    bytesColumn('before_bytes', capital(first), (g) => g.before),
    bytesColumn('after_bytes', capital(second), (g) => g.bytes),
    countColumn('blocks_before', `Blocks, ${first}`, (g) => g.countBefore),
    countColumn('blocks_after', `Blocks, ${second}`, (g) => g.count),
  ];
}

function ChangeTable(p: RowsProps & { before: number; recording: Device }) {
  const color = colorsOfGroups(p.by);
  const [first, second] = [p.before, p.now].map((at) => momentName(at, p.recording)) as [string, string];
  const columns = useMemo(() => changeColumns(p.by, color, first, second), [p.by, color, first, second]);
  return (
    <Table
      name={`moment-${p.before}-to-${p.now}`}
      caption={`Change by ${p.by}`}
      columns={columns}
      rows={p.groups}
      rowKey={(g) => g.key}
      sortBy="change_bytes"
      chosen={p.chosen}
      choose={(g) => p.choose(g.key)}
      marked={(g) => g.found}
    />
  );
}
