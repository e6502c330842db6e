// Replays the recorded requests under other allocator settings, and estimates changes to the program.

import { batch } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Button, Empty, Select, Waiting } from '../../parts/controls';
import { useCurrent, type Current } from '../../parts/current';
import { Sentence } from '../../parts/sentence';
import { Split } from '../../parts/split';
import { Stopped, UnderWay, useStoppable } from '../../parts/stoppable';
import { Table } from '../../parts/table';
import type { Tried } from '../../source/generated/report';
import type { Replay, ReplayConfidence } from '../../source/source';
import { source } from '../../state/recordings';
import {
  capacityBytes,
  deviceGib,
  gpu,
  knownGpus,
  nameOf,
  needGpus,
  overheadBytes,
  overheadMib,
  ownSetting,
  replayOf,
  replayQuery,
  setting,
} from '../../state/replay';
import { trouble } from '../../state/trouble';
import { reason } from '../../text/reason';
import { bytes, count, signedBytes } from '../../text/units';
import { Changes } from './changes';
import { CopyLine } from './copy-line';

const VARIABLE = 'PYTORCH_CUDA_ALLOC_CONF';

type Row = Tried & { index: number };

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  return <WhatIf key={shown.scope} {...shown} />;
}

function WhatIf(current: Current) {
  const { file, device, scope, recording } = current;
  const hasHistory = recording.events > 0;
  const own = ownSetting.value;
  const checked = useAnswer(
    scope,
    own ?? '',
    own === null ? null : (unwanted) => source.ask(file, device, { question: 'setting', conf: own }, unwanted),
  );
  const refused = own === null || checked.pending ? null : (checked.value?.refused ?? null);
  const query = replayQuery.value;
  const wrong = wrongDevice();
  const { answer, stopped, stop, again } = useStoppable(
    scope,
    query && JSON.stringify(query),
    hasHistory && query && !wrong && (own === null || (!checked.pending && refused === null))
      ? (unwanted) => replayOf(file, device, query, unwanted)
      : null,
  );
  useEffect(() => {
    needGpus().catch((e: unknown) => (trouble.value = reason(e)));
  }, []);

  if (!hasHistory) {
    return (
      <Empty title="There is no history to replay.">
        <p>
          The file holds only the state when the snapshot was taken. Record the history of the run, in PyTorch with
          torch.cuda.memory._record_memory_history(), and other settings can be tried on it.
        </p>
      </Empty>
    );
  }
  const isInvalid = refused !== null || wrong !== null;
  const valid = useRef<{ replay: Replay; own: string | null } | null>(null);
  if (!isInvalid && !answer.pending && answer.value) valid.current = { replay: answer.value, own };
  // An invalid setting or device keeps the last table.
  const replay = isInvalid ? (valid.current?.replay ?? null) : answer.pending ? null : answer.value;
  const shownOwn = isInvalid ? (valid.current?.own ?? null) : own;
  const rows: Row[] = replay?.device.what_if.map((row, index) => ({ ...row, index })) ?? [];
  const chosen = rows.find((row) => row.index === setting.value) ?? null;
  return (
    <div
      class="panel whatif-view"
      aria-busy={!replay && !stopped && !refused && !wrong}
      {...(replay && { 'data-settings': rows.length })}
    >
      {replay && <Verdict replay={replay} rows={rows} />}
      <Question refused={refused} wrong={wrong} isKept={isInvalid && replay !== null} />
      <Changes {...current} />
      {replay ? (
        <Split
          name="setting"
          pane="chosen setting"
          panes="beside"
          sized="second"
          initial="min(350px, 45%)"
          least={160}
          first={<SettingTable rows={rows} />}
          second={
            <aside class="whatif-side" aria-label="Chosen setting, lower bounds and limitations" tabIndex={0}>
              <Chosen row={chosen} recorded={rows.find((r) => r.recorded) ?? null} />
              <Smallest
                key={chosen?.conf ?? shownOwn ?? ''}
                shown={{ file, device, scope }}
                conf={chosen ? (chosen.recorded ? null : chosen.conf) : shownOwn}
              />
              <Floors replay={replay} />
              <Confidence confidence={replay.confidence} />
            </aside>
          }
        />
      ) : stopped ? (
        <Stopped again={again} />
      ) : refused !== null || wrong ? null : answer.error ? (
        <Waiting error={answer.error} what="" />
      ) : (
        <UnderWay what={`Replaying ${count(recording.events)} events under other settings`} stop={stop} />
      )}
    </div>
  );
}

/** Returns why the chosen device is invalid, or null. */
function wrongDevice(): string | null {
  const bytesOfIt = capacityBytes.value;
  if (bytesOfIt === undefined && knownGpus.value) return `No known GPU is called ${gpu.value}.`;
  if (bytesOfIt && overheadBytes() >= bytesOfIt) {
    return `An overhead of ${bytes(overheadBytes())} leaves nothing of a device of ${bytes(bytesOfIt)}.`;
  }
  return null;
}

interface NumberFieldProps {
  label: string;
  title?: string;
  value: number | null;
  choose: (value: number | null) => void;
}

/** A field for a positive number; null if it is empty or invalid. */
function NumberField({ label, title, value, choose }: NumberFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="number"
        min="0"
        step="any"
        title={title}
        value={value ?? ''}
        onChange={({ currentTarget: { valueAsNumber } }) => choose(valueAsNumber > 0 ? valueAsNumber : null)}
      />
    </label>
  );
}

/** The inputs of the replay: a setting, a device, an overhead. */
function Question({ refused, wrong, isKept }: { refused: string | null; wrong: string | null; isKept: boolean }) {
  // Another answer has other rows.
  const change = (by: () => void) =>
    batch(() => {
      setting.value = null;
      by();
    });
  const gpuChoices = [
    { value: '', label: deviceGib.value === null ? 'as recorded' : 'by its size' },
    ...(knownGpus.value ?? []).map(({ name, bytes: size }) => ({ value: name, label: `${name} (${bytes(size)})` })),
  ];
  return (
    <form class="whatif-form" aria-label="What to replay" onSubmit={(e) => e.preventDefault()}>
      <label class="field field-wide">
        <span>Custom setting</span>
        <input
          type="text"
          value={ownSetting.value ?? ''}
          placeholder="as in PYTORCH_CUDA_ALLOC_CONF, such as max_split_size_mb:128"
          spellcheck={false}
          autocomplete="off"
          aria-invalid={refused !== null}
          onChange={(e) => {
            const text = e.currentTarget.value.trim();
            change(() => (ownSetting.value = text === '' ? null : text));
          }}
        />
      </label>
      <Select
        label="GPU"
        choices={gpuChoices}
        value={gpu.value ?? ''}
        choose={(name) => change(() => ([gpu.value, deviceGib.value] = [name === '' ? null : name, null]))}
      />
      <NumberField
        label="Device size, GiB"
        value={deviceGib.value}
        choose={(size) => change(() => ([gpu.value, deviceGib.value] = [null, size]))}
      />
      <NumberField
        label="Overhead, MiB"
        title="Device memory that the allocator cannot use: CUDA contexts, other processes"
        value={overheadMib.value}
        choose={(size) => change(() => (overheadMib.value = size === null ? null : Math.floor(size)))}
      />
      {(refused ?? wrong) !== null && (
        <p class="field-wrong" role="alert">
          <Sentence text={refused ?? wrong ?? ''} />
        </p>
      )}
      {isKept && <p class="field-kept">The table is for the last valid input.</p>}
    </form>
  );
}

/** The smallest device and the smallest GPU that a setting fits on, computed on request. */
function Smallest({
  shown: { file, device, scope },
  conf,
}: {
  shown: Pick<Current, 'file' | 'device' | 'scope'>;
  conf: string | null;
}) {
  const [wanted, setWanted] = useState(false);
  const query = { conf, capacity: null, overhead: overheadBytes(), find_capacity: true };
  const { answer, stopped, stop, again } = useStoppable(
    scope,
    JSON.stringify(query),
    wanted ? (unwanted) => replayOf(file, device, query, unwanted) : null,
  );
  const found = answer.pending ? null : answer.value;
  const smallest = found?.device.smallest_capacity_bytes ?? null;
  return (
    <section class="fact-section" aria-label="Smallest device" aria-busy={wanted && !found && !stopped && !answer.error}>
      <h3>The smallest device for {conf === null ? 'the recorded setting' : nameOf(conf)}</h3>
      {!wanted ? (
        <Button onClick={() => setWanted(true)}>Find the smallest GPU</Button>
      ) : stopped ? (
        <Stopped again={again} />
      ) : answer.error ? (
        <p role="alert">{answer.error}</p>
      ) : !found ? (
        <UnderWay what="Replaying on devices of many sizes" stop={stop} />
      ) : (
        <div role="status" data-gpu={found.device.smallest_gpu?.name ?? ''} data-bytes={smallest ?? ''}>
          <p>{found.smallest_gpu ?? 'It fits on no known GPU.'}</p>
          <p>
            {smallest === null
              ? 'It fits on no device size that was tried.'
              : `It fits on a device of ${bytes(smallest)}${query.overhead > 0 ? `, with an overhead of ${bytes(query.overhead)}` : ', without overhead'}.`}
          </p>
          <Limitations title={null} limitations={found.confidence.limitations} />
        </div>
      )}
    </section>
  );
}

function verdictOf(row: Row): string {
  if (row.oom_event !== null) return `fails at event ${count(row.oom_event)}`;
  return row.fits === null ? 'no limit known' : 'fits';
}

/** Returns the table's verdict as a sentence, and a second one that may be empty. */
function verdictSentences(rows: Row[]): [string, string] {
  const best = rows[0];
  const recorded = rows.find((r) => r.recorded);
  if (!best) return ['No other settings apply to this recording.', ''];
  if (best.oom_event !== null)
    return [rows.length > 1 ? 'None of these settings makes the run fit.' : 'The run does not fit.', ''];
  if (best.recorded) return ['No setting is better than the recorded one.', ''];
  const peak = bytes(best.peak_reserved_bytes);
  if (!recorded) return [`${nameOf(best.conf)} would peak at ${peak} reserved`, ''];
  if (recorded.oom_event !== null && best.oom_event === null) {
    return [`With ${nameOf(best.conf)} this run would not have run out of memory`, `it peaks at ${peak} reserved`];
  }
  const change = signedBytes(best.peak_reserved_bytes - recorded.peak_reserved_bytes);
  return [`${nameOf(best.conf)} would peak at ${peak} reserved`, `${change} compared with the recorded settings`];
}

function Verdict({ replay, rows }: { replay: Replay; rows: Row[] }) {
  const { device } = replay;
  const [verdict, more] = verdictSentences(rows);
  return (
    <header class="panel-head">
      <div class="panel-title">
        <h2>{verdict}</h2>
        {more && <span class="quiet">{more}</span>}
      </div>
      {replay.nearest !== null && (
        <p>
          <Sentence text={replay.nearest} />
        </p>
      )}
      <p class="quiet">
        {count(device.events)} events replayed{device.torch ? ` by the rules of PyTorch ${device.torch}` : ''}.{' '}
        <Sentence text={replay.device_size} />
      </p>
    </header>
  );
}

function SettingTable({ rows }: { rows: Row[] }) {
  const recorded = rows.find((r) => r.recorded);
  const most = Math.max(...rows.map((r) => r.peak_reserved_bytes), 1);
  const columns: Column<Row>[] = [
    textColumn('setting', 'Setting', (r) => (r.recorded ? `${nameOf(r.conf)} (recorded)` : nameOf(r.conf)), true),
    bytesColumn('peak_reserved_bytes', 'Peak reserved', (r) => r.peak_reserved_bytes, most),
    ...(recorded
      ? [changeColumn<Row>('change_bytes', 'Change', (r) => r.peak_reserved_bytes - recorded.peak_reserved_bytes)]
      : []),
    {
      ...bytesColumn<Row>('external_fragmentation_bytes', 'Fragmentation', (r) => r.external_fragmentation_bytes),
      hint: 'External fragmentation: reserved and not active where active bytes peak',
    },
    {
      ...countColumn<Row>('device_calls', 'Device calls', (r) => r.device_allocs + r.device_frees),
      hint: 'Calls that take memory from the device or return it',
    },
    countColumn('retries', 'Retries', (r) => r.num_alloc_retries),
    textColumn('verdict', 'Verdict', verdictOf),
  ];
  return (
    <Table
      name="what-if"
      caption="Settings, best first"
      columns={columns}
      rows={rows}
      rowKey={(r) => r.index}
      chosen={setting.value}
      choose={(r) => (setting.value = r.index)}
      marked={(r) => r.recorded}
    />
  );
}

function Chosen({ row, recorded }: { row: Row | null; recorded: Row | null }) {
  if (!row) {
    return (
      <section class="fact-section" aria-label="Chosen setting">
        <h3>No setting is chosen</h3>
        <p class="quiet">Choose a row: its reserved bytes are drawn over the recorded ones in the timeline.</p>
      </section>
    );
  }
  const change = recorded && row !== recorded ? row.peak_reserved_bytes - recorded.peak_reserved_bytes : null;
  return (
    <section class="fact-section" aria-label="Chosen setting">
      <h3>
        {row.recorded ? 'The recorded setting' : 'To run with this setting'}
        <button type="button" class="link-button" onClick={() => (setting.value = null)}>
          Remove its line
        </button>
      </h3>
      {row.conf === '' ? (
        <p>Leave {VARIABLE} unset: these are PyTorch's defaults.</p>
      ) : (
        <CopyLine text={`${VARIABLE}=${row.conf}`} />
      )}
      {change !== null && (
        <p class="quiet">
          {bytes(row.peak_reserved_bytes)} reserved at most, {signedBytes(change)} compared with the recorded settings. Its line
          in the timeline is drawn over the recorded reserved bytes.
        </p>
      )}
    </section>
  );
}

function Floors({ replay }: { replay: Replay }) {
  const { floors } = replay.device;
  return (
    <section class="fact-section" aria-label="Lower bounds">
      <h3>Lower bounds of reserved bytes</h3>
      <dl class="facts">
        <div title={`${count(floors.active_bytes)} bytes`}>
          <dt>most in use at once</dt>
          <dd>{bytes(floors.active_bytes)}</dd>
        </div>
        <div title={`${count(floors.packed_bytes)} bytes`}>
          <dt>best packing{floors.packed_is_optimal ? '' : ' found'}</dt>
          <dd>{bytes(floors.packed_bytes)}</dd>
        </div>
      </dl>
      <p class="quiet">{replay.floors.join(' ')}</p>
    </section>
  );
}

/** The confidence in the numbers, in the report's words. */
function Confidence({ confidence }: { confidence: ReplayConfidence }) {
  return (
    <section class="fact-section" aria-label="Confidence">
      <h3>{confidence.title}</h3>
      {confidence.reproduced !== null && <p class="quiet">{confidence.reproduced}</p>}
      <Limitations title={null} limitations={confidence.limitations} />
      <Limitations title="For other than the recorded settings:" limitations={confidence.what_if_limitations} />
    </section>
  );
}

function Limitations({ title, limitations }: { title: string | null; limitations: string[] }) {
  if (limitations.length === 0) return null;
  return (
    <>
      {title && <p>{title}</p>}
      <ul class="reasons">
        {limitations.map((d) => (
          <li key={d}>
            <Sentence text={d} />
          </li>
        ))}
      </ul>
    </>
  );
}
