// Compares two recordings: their timelines, what grew from one to the other, their settings and peaks.

import { batch } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useAnswer } from '../parts/answer';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../parts/columns';
import { Button, Empty, Segmented, Select, Waiting, type Choice } from '../parts/controls';
import { useCurrent, type Current } from '../parts/current';
import { GROUP_CHOICES, groupTitle } from '../parts/grouping';
import { groupsOf, type Group } from '../parts/holders';
import { SmallTimeline } from '../parts/small-timeline';
import { StackTrace } from '../parts/stack-trace';
import { Table } from '../parts/table';
import { parsed } from '../search/found';
import { asksForRegions, compile } from '../search/query';
import { KINDS, NONE, type By, type Device, type Held, type Recording } from '../source/source';
import { other, otherMoment } from '../state/compared';
import { groupBy } from '../state/grouping';
import { moment, shownMoment } from '../state/moment';
import { names, needNames, recording, recordings, source } from '../state/recordings';
import { search } from '../state/search';
import { trouble } from '../state/trouble';
import { baseName } from '../text/path';
import { reason } from '../text/reason';
import { bytes, deviceName, signedBytes } from '../text/units';

/** One of the two that are compared. */
interface Side extends Current {
  title: string;
  of: Recording;
}

/** The file's name, with its path where another has the same. */
function titleOf(r: Recording, d: Device): string {
  const base = baseName(r.name);
  const unique = (recordings.value ?? []).every((o) => o === null || o === r || baseName(o.name) !== base);
  const name = unique ? base : r.name;
  return r.devices.length > 1 ? `${name}, ${deviceName(d.device)}` : name;
}

/** A recording that can be compared with the one that is shown. */
interface Other extends Choice<string> {
  file: number;
  device: number;
  of: Recording;
  recording: Device;
}

/** Every device of every file but the one that is shown. */
function others(first: Current): Other[] {
  return (recordings.value ?? []).flatMap((of, file) =>
    (of?.devices ?? []).flatMap((recording, device) => {
      if (!of || (file === first.file && device === first.device)) return [];
      return [{ value: `${file}.${device}`, label: titleOf(of, recording), file, device, of, recording }];
    }),
  );
}

export function CompareView() {
  const first = useCurrent();
  const of = recording.value;
  if (!first || !of) return null;
  const choices = others(first);
  const wanted = other.value?.join('.');
  const chosen = choices.find((c) => c.value === wanted) ?? choices[0];
  if (!chosen) {
    return (
      <Empty title="There is nothing to compare with yet.">
        <p>
          Give two recordings, as in <code>vramscope view before.pickle after.pickle</code>, or drop a second one onto this page.
        </p>
      </Empty>
    );
  }
  return (
    <Compare
      key={`${first.scope}/${chosen.value}`}
      first={{ ...first, of, title: titleOf(of, first.recording) }}
      choices={choices}
      chosen={chosen}
    />
  );
}

/** The upper end of both timelines, as a multiple of the highest bytes. */
const HEADROOM = 1.04;

/** The highest bytes of these devices. Allocated bytes count, too, for some recordings say nothing of reserved ones. */
const highest = (...all: Device[]) => Math.max(1, ...all.flatMap(({ peaks }) => [peaks.allocated.bytes, peaks.reserved.bytes]));

interface CompareProps {
  first: Side;
  choices: Other[];
  chosen: Other;
}

function Compare({ first: a, choices, chosen }: CompareProps) {
  const { file } = chosen;
  useEffect(() => {
    needNames(file).catch((e: unknown) => (trouble.value = reason(e)));
  }, [file]);
  const b: Side = { ...chosen, scope: chosen.value, names: names.value.get(file) ?? null, title: chosen.label };
  const atA = shownMoment.value;
  const atB = Math.min(otherMoment.value ?? b.recording.peaks.allocated.moment, b.recording.events);
  const high = highest(a.recording, b.recording) * HEADROOM;
  const atPeaks = atA === a.recording.peaks.allocated.moment && atB === b.recording.peaks.allocated.moment;
  return (
    <div class="panel compare-view" data-other={chosen.value}>
      <header class="panel-head">
        <h2 class="visually-hidden">Comparison of two recordings</h2>
        <div class="toolbar">
          <Select
            label="Compare with"
            choices={choices}
            value={chosen.value}
            choose={(value) =>
              batch(() => {
                const next = choices.find((c) => c.value === value);
                if (next) other.value = [next.file, next.device];
                otherMoment.value = null;
              })
            }
          />
          <Segmented label="Group by" choices={GROUP_CHOICES} value={groupBy.value} choose={(g) => (groupBy.value = g)} />
          <span class="spring" />
          {!atPeaks && (
            <Button
              onClick={() =>
                batch(() => {
                  moment.value = otherMoment.value = null;
                })
              }
            >
              Both at their peaks
            </Button>
          )}
        </div>
      </header>
      <div class="small-timelines">
        <SmallTimeline {...a} title={`A  ${a.title}`} high={high} moment={atA} choose={(m) => (moment.value = m)} />
        <SmallTimeline {...b} title={`B  ${b.title}`} high={high} moment={atB} choose={(m) => (otherMoment.value = m)} />
      </div>
      <div class="compare-body">
        <Growth a={a} b={b} atA={atA} atB={atB} />
        <div class="compare-side">
          <WhatChanged a={a} b={b} />
          <Peaks a={a.recording} b={b.recording} />
          <Settings a={a.of} b={b.of} />
        </div>
      </div>
    </div>
  );
}

function growthColumns(by: By): Column<Group>[] {
  return [
    textColumn(by, groupTitle(by), (g) => g.label, true),
    changeColumn('change_bytes', 'B − A', (g) => g.bytes - g.before),
    bytesColumn('a_bytes', 'A', (g) => g.before),
    bytesColumn('b_bytes', 'B', (g) => g.bytes),
    countColumn('a_blocks', 'Blocks A', (g) => g.countBefore),
    countColumn('b_blocks', 'Blocks B', (g) => g.count),
  ];
}

/** What is live in both in groups, with what it was grouped by. */
function useBoth(a: Side, b: Side, atA: number, atB: number) {
  const by = groupBy.value;
  const searched = parsed.value;
  const told = (side: Side) => `${side.names !== null} ${side.recording.purposes !== null}`;
  const query = async ({ names, recording, file, device }: Side) => {
    const regions = asksForRegions(searched) ? await source.regions(file, device) : null;
    return names && compile(searched, { ...recording, names, regions });
  };
  return useAnswer(a.scope, `${b.scope} ${atA} ${atB} ${by} ${told(a)} ${told(b)} ${search.value}`, async (unwanted) => {
    const other = { other_file: b.file, other_device: b.device, other_moment: atB, other_search: await query(b) };
    const held = await source.holdersOfBoth(a.file, a.device, { moment: atA, by, search: await query(a), ...other }, unwanted);
    return { held, groups: groupsOf(held), by };
  });
}

/** A table of what changed from A to B, and the stack of the chosen row. */
function Growth({ a, b, atA, atB }: { a: Side; b: Side; atA: number; atB: number }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const both = useBoth(a, b, atA, atB);
  const by = both.value?.by ?? groupBy.value;
  const columns = useMemo(() => growthColumns(by), [by]);
  const before = both.value?.held.before;
  if (!both.value || !before) return <Waiting error={both.error} what="Reading what is live in both." />;
  const { groups } = both.value;
  const { now } = both.value.held;
  const [totalA, totalB] = [before.counters.allocated, now.counters.allocated];
  const row = groups.find((g) => g.key === chosen) ?? groups[0];
  const inB = row !== undefined && row.stack !== NONE;
  return (
    <div class="growth" data-a={totalA} data-b={totalB} aria-busy={both.pending}>
      <Table
        name={`compare-${before.moment}-${now.moment}`}
        caption={`Allocated by ${by}`}
        columns={columns}
        rows={groups}
        rowKey={(g) => g.key}
        sortBy="change_bytes"
        chosen={row?.key ?? null}
        choose={(g) => setChosen(g.key)}
        marked={(g) => g.found}
      >
        <span class="compared">
          A {bytes(totalA)}, B {bytes(totalB)}: {signedBytes(totalB - totalA)}
        </span>
      </Table>
      {row && (
        <StackTrace
          file={inB ? b.file : a.file}
          stack={inB ? row.stack : row.stackBefore}
          heading={`Stack that holds most of it in ${inB ? 'B' : 'A'}`}
        />
      )}
    </div>
  );
}

const CATEGORY_COLUMNS: Column<Held>[] = [
  textColumn('category', 'Category', (r) => r.name, true),
  bytesColumn('a_bytes', 'A', (r) => r.a),
  bytesColumn('b_bytes', 'B', (r) => r.b),
  changeColumn('change_bytes', 'B − A', (r) => r.b - r.a),
];

/** What made the difference at the peaks, as `vramscope diff` tells it. */
function WhatChanged({ a, b }: { a: Side; b: Side }) {
  const at = ({ file, device }: Side) => ({ file, device });
  const { value, error } = useAnswer(a.scope, b.scope, (unwanted) => source.comparison(at(a), at(b), unwanted));
  if (!value) return <Waiting error={error} what="Looking for what changed." />;
  const told = value.changes.filter((c) => c.counts || c.a === c.b || c.kind === 'leak');
  return (
    <section class="what-changed" aria-label="What changed">
      <h3>What changed</h3>
      <p>{value.verdict}</p>
      <ol>
        {told.map((c, i) => (
          <li key={i} data-kind={c.kind} data-bytes={c.b - c.a}>
            {c.a !== c.b && <b class="number">{signedBytes(c.b - c.a)}</b>} {c.text}
            <ul>
              {c.lines.map((line, n) => (
                <li key={n}>
                  <span class="number">{signedBytes(line.b - line.a)}</span> {line.name}
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {value.categories.length > 0 && (
        <Table
          name="compare-categories"
          caption="Categories at the peaks"
          columns={CATEGORY_COLUMNS}
          rows={value.categories}
          rowKey={(r) => r.name}
        />
      )}
    </section>
  );
}

interface PeakRow {
  kind: string;
  a: number;
  b: number;
}

const PEAK_COLUMNS: Column<PeakRow>[] = [
  textColumn('kind', 'Peak', (r) => r.kind, true),
  bytesColumn('a_bytes', 'A', (r) => r.a),
  bytesColumn('b_bytes', 'B', (r) => r.b),
  changeColumn('change_bytes', 'B − A', (r) => r.b - r.a),
];

function Peaks({ a, b }: { a: Device; b: Device }) {
  const rows = KINDS.map((kind) => ({ kind, a: a.peaks[kind].bytes, b: b.peaks[kind].bytes }));
  return <Table name="compare-peaks" caption="Peaks" columns={PEAK_COLUMNS} rows={rows} rowKey={(r) => r.kind} />;
}

interface SettingRow {
  name: string;
  a: string | null;
  b: string | null;
}

const SETTING_COLUMNS: Column<SettingRow>[] = [
  textColumn('setting', 'Setting', (r) => r.name),
  textColumn('a', 'A', (r) => r.a ?? '–'),
  textColumn('b', 'B', (r) => r.b ?? '–'),
  textColumn('differs', 'Differs', (r) => (r.a === r.b ? 'no' : 'yes')),
];

function settingRows(a: Recording, b: Recording): SettingRow[] {
  const all = (r: Recording) => new Map([...r.facts, ...r.settings]);
  const [inA, inB] = [all(a), all(b)];
  const rows = [...new Set([...inA.keys(), ...inB.keys()])].map((name) => ({
    name,
    a: inA.get(name) ?? null,
    b: inB.get(name) ?? null,
  }));
  return [...rows.filter((r) => r.a !== r.b), ...rows.filter((r) => r.a === r.b)];
}

function Settings({ a, b }: { a: Recording; b: Recording }) {
  const rows = useMemo(() => settingRows(a, b), [a, b]);
  return (
    <Table
      name="compare-settings"
      caption="Settings and facts"
      columns={SETTING_COLUMNS}
      rows={rows}
      rowKey={(r) => r.name}
      marked={(r) => r.a !== r.b}
    />
  );
}
