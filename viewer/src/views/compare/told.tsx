// The explanation of the difference, the peaks, and the settings of both.

import { useMemo, useState } from 'preact/hooks';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, changeColumn, textColumn, type Column } from '../../parts/columns';
import { Waiting } from '../../parts/controls';
import { Table } from '../../parts/table';
import { KINDS, type Device, type Held, type Recording } from '../../source/source';
import { source } from '../../state/recordings';
import { signedBytes } from '../../text/units';
import type { Side } from './side';

const CATEGORY_COLUMNS: Column<Held>[] = [
  textColumn('category', 'Category', (r) => r.name, true),
  bytesColumn('a_bytes', 'A', (r) => r.a),
  bytesColumn('b_bytes', 'B', (r) => r.b),
  changeColumn('change_bytes', 'B − A', (r) => r.b - r.a),
];

/** The explanation of the difference at the peaks, or at those of a step, as in `vramscope diff`. */
export function WhatChanged({ a, b }: { a: Side; b: Side }) {
  const scope = `${a.scope} ${b.scope}`;
  const [chosen, choose] = useState<{ scope: string; step: number } | null>(null);
  // A step belongs to the two recordings for which it was chosen.
  const step = chosen?.scope === scope ? chosen.step : null;
  const steps = Math.min(...[a, b].map(({ recording }) => recording.steps?.from.length ?? 0));
  return (
    <section class="what-changed" aria-label="What changed">
      <h3>What changed</h3>
      {steps > 0 && (
        <label>
          At the peaks of step{' '}
          <input
            type="number"
            min={1}
            max={steps}
            placeholder="all"
            value={step ?? ''}
            onChange={({ currentTarget: { value, valueAsNumber, validity } }) =>
              choose(value === '' || !validity.valid ? null : { scope, step: valueAsNumber })
            }
          />
        </label>
      )}
      <Changes a={a} b={b} step={step} />
    </section>
  );
}

function Changes({ a, b, step }: { a: Side; b: Side; step: number | null }) {
  const { value, pending, error } = useAnswer(a.scope, `${b.scope} ${step}`, (unwanted) =>
    source.ask(
      a.file,
      a.device,
      { question: 'comparison', other_file: b.file, other_device: b.device, request: { at_step: step } },
      unwanted,
    ),
  );
  if (!value || pending) return <Waiting error={error} what="Comparing the recordings." />;
  const told = value.changes.filter((c) => c.counts || c.a === c.b || c.kind === 'leak');
  return (
    <>
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
    </>
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

export function Peaks({ a, b }: { a: Device; b: Device }) {
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

export function Settings({ a, b }: { a: Recording; b: Recording }) {
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
