// The recorded requests replayed under other settings of the allocator.

import { useRef, useState } from 'preact/hooks';
import { useAnswer } from '../parts/answer';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../parts/columns';
import { Button, Empty, Waiting } from '../parts/controls';
import { useCurrent, type Current } from '../parts/current';
import { Sentence } from '../parts/sentence';
import { Table } from '../parts/table';
import type { Tried } from '../source/generated/report';
import type { Replay, ReplayTrust } from '../source/source';
import { nameOf, replayOf, setting } from '../state/replay';
import { bytes, count, signedBytes } from '../text/units';

const VARIABLE = 'PYTORCH_CUDA_ALLOC_CONF';

type Row = Tried & { index: number };

export function WhatIfView() {
  const shown = useCurrent();
  if (!shown) return null;
  return <WhatIf key={shown.scope} {...shown} />;
}

function WhatIf({ file, device, scope, recording }: Current) {
  const answer = useAnswer(scope, scope, recording.events === 0 ? null : (unwanted) => replayOf(file, device, unwanted));
  const replay = answer.value;
  const chosen = setting.value;

  if (recording.events === 0) {
    return (
      <Empty title="There is no history to replay.">
        <p>
          The file holds only the state when the snapshot was taken. Record the history of the run, in PyTorch with
          torch.cuda.memory._record_memory_history(), and other settings can be tried on it.
        </p>
      </Empty>
    );
  }
  if (!replay) {
    return <Waiting error={answer.error} what="Replaying the recording under other settings. This can take some seconds." />;
  }
  const rows: Row[] = replay.device.what_if.map((row, index) => ({ ...row, index }));
  return (
    <div class="panel whatif-view" data-settings={rows.length}>
      <Verdict replay={replay} rows={rows} />
      <div class="whatif-body">
        <SettingTable rows={rows} />
        <aside class="whatif-side" aria-label="The chosen setting, floors and doubts" tabIndex={0}>
          <Chosen row={rows.find((r) => r.index === chosen) ?? null} recorded={rows.find((r) => r.recorded) ?? null} />
          <Floors replay={replay} />
          <Trust trust={replay.trust} />
        </aside>
      </div>
    </div>
  );
}

function verdictOf(row: Row): string {
  if (row.oom_event !== null) return `fails at event ${count(row.oom_event)}`;
  return row.fits === null ? 'no limit known' : 'fits';
}

/** What the table says, in a sentence, and a second one that may be empty. */
function verdictSentences(rows: Row[]): [string, string] {
  const best = rows[0];
  const recorded = rows.find((r) => r.recorded);
  if (!best) return ['No other settings apply to this recording.', ''];
  if (best.oom_event !== null) return ['None of these settings makes the run fit.', ''];
  if (best.recorded) return ['No setting serves better than the recorded one.', ''];
  const peak = bytes(best.peak_reserved_bytes);
  if (!recorded) return [`${nameOf(best.conf)} would peak at ${peak} reserved`, ''];
  if (recorded.oom_event !== null && best.oom_event === null) {
    return [`With ${nameOf(best.conf)} this run would not have run out of memory`, `it peaks at ${peak} reserved`];
  }
  const change = signedBytes(best.peak_reserved_bytes - recorded.peak_reserved_bytes);
  return [`${nameOf(best.conf)} would peak at ${peak} reserved`, `${change} against the recorded settings`];
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
      hint: 'Calls that take memory from the device or give it back',
    },
    countColumn('retries', 'Retries', (r) => r.num_alloc_retries),
    textColumn('verdict', 'Verdict', verdictOf),
  ];
  return (
    <Table
      name="what-if"
      caption="Settings, the best first"
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
          {bytes(row.peak_reserved_bytes)} reserved at most, {signedBytes(change)} against the recorded settings. Its line in the
          timeline is drawn over the recorded reserved bytes.
        </p>
      )}
    </section>
  );
}

function CopyLine({ text }: { text: string }) {
  const line = useRef<HTMLElement>(null);
  const [copied, setCopied] = useState<string | null>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(text);
    } catch {
      // Where the browser does not allow to write the clipboard the line is selected, so that it can be copied by hand.
      getSelection()?.selectAllChildren(line.current!);
    }
  };
  return (
    <div class="copy-line">
      <code ref={line}>{text}</code>
      <Button onClick={() => void copy()}>Copy</Button>
      <span class="visually-hidden" aria-live="polite">
        {copied === text ? 'Copied.' : ''}
      </span>
      {copied === text && (
        <span class="quiet" aria-hidden="true">
          copied
        </span>
      )}
    </div>
  );
}

function Floors({ replay }: { replay: Replay }) {
  const { floors } = replay.device;
  return (
    <section class="fact-section" aria-label="Floors">
      <h3>What no setting can beat</h3>
      <dl class="facts">
        <div title={`${count(floors.active_bytes)} bytes`}>
          <dt>in use at one time</dt>
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

/** How far the numbers can be trusted, in the report's own words. */
function Trust({ trust }: { trust: ReplayTrust }) {
  return (
    <section class="fact-section" aria-label="How far to trust it">
      <h3>{trust.title}</h3>
      {trust.reproduced !== null && <p class="quiet">{trust.reproduced}</p>}
      <Doubts title={null} doubts={trust.doubts} />
      <Doubts title="Of settings other than the recorded ones:" doubts={trust.what_if_doubts} />
    </section>
  );
}

function Doubts({ title, doubts }: { title: string | null; doubts: string[] }) {
  if (doubts.length === 0) return null;
  return (
    <>
      {title && <p>{title}</p>}
      <ul class="reasons">
        {doubts.map((d) => (
          <li key={d}>
            <Sentence text={d} />
          </li>
        ))}
      </ul>
    </>
  );
}
