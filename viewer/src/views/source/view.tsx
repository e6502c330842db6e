// Source files beside the memory of their lines.

import { useMemo } from 'preact/hooks';
import { isPlace, shortFile } from '../../names/stacks';
import { entryAt } from '../../numbers/at';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Button, Empty, Waiting } from '../../parts/controls';
import { momentText, useCurrent, type Current } from '../../parts/current';
import { Table } from '../../parts/table';
import { VirtualList } from '../../parts/virtual-list';
import { onlyQuery, queryText } from '../../search/found';
import type { LineFinding, Names, Source } from '../../source/source';
import { shownMoment } from '../../state/moment';
import { source } from '../../state/recordings';
import { search } from '../../state/search';
import { leaveSource, showSource, sourceChoice, sourceFrame, sourceLine } from '../../state/source';
import { bytes, count } from '../../text/units';
import { hotLines, linesOf, rowsOf, type Line, type Row } from './lines';

/** The height of a line in CSS pixels. */
const ROW = 20;

export function View() {
  const shown = useCurrent();
  if (!shown?.names) return null;
  return <SourceView shown={shown} names={shown.names} />;
}

function SourceView({ shown, names }: { shown: Current; names: Names }) {
  const { file, device, scope, recording } = shown;
  const [frame, moment, choice, only] = [sourceFrame.value, shownMoment.value, sourceChoice.value, onlyQuery.value];
  const isFrame = frame !== null && frame < names.file.length;
  const key = [frame, moment, only === null, queryText.value].join(' ');
  const lines = useAnswer(scope, key, async (unwanted) => {
    const asked = { question: 'source_lines', frame: isFrame ? frame : null, moment, only } as const;
    const answer = await source.ask(file, device, asked, unwanted);
    return { rows: rowsOf(answer), findings: answer.findings, isFrame };
  });
  const { readSource } = source;
  const text = useAnswer(
    scope,
    `${frame} ${choice}`,
    isFrame && readSource ? (unwanted) => readSource(file, { frame, choice }, unwanted) : null,
  );
  if (!lines.value || lines.value.isFrame !== isFrame) {
    return <Waiting error={lines.error} what="Adding up the memory of source lines." />;
  }
  const { rows, findings } = lines.value;
  return (
    <div class="panel source-view" aria-busy={lines.pending || text.pending} data-lines={rows.length}>
      {isFrame ? (
        <File
          key={`${scope} ${frame}`}
          names={names}
          frame={frame}
          rows={rows}
          findings={findings}
          text={text.value}
          error={text.error}
          when={momentText(moment, recording)}
        />
      ) : (
        <Files rows={rows} names={names} when={momentText(moment, recording)} />
      )}
    </div>
  );
}

const COLUMNS = (names: Names, most: number): Column<Row>[] => [
  textColumn('file', 'File', ({ frame }) => shortFile(names, frame), true),
  bytesColumn('live_bytes', 'Live', ({ live }) => live, most),
  bytesColumn('own_bytes', 'Own', ({ own }) => own),
  bytesColumn('allocated_bytes', 'Allocated in total', ({ allocated }) => allocated),
  countColumn('allocations', 'Allocations', (row) => row.count),
];

function Files({ rows, names, when }: { rows: Row[]; names: Names; when: string }) {
  const most = rows[0]?.live ?? 0;
  const columns = useMemo(() => COLUMNS(names, most), [names, most]);
  if (rows.length === 0) {
    return (
      <Empty title="No source file is known.">
        <p>The recorded stacks have no Python frames, or no allocation matches.</p>
      </Empty>
    );
  }
  return (
    <Table
      name="files"
      caption={`Files with memory ${when}`}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.frame}
      sortBy="live_bytes"
      enter={(row) => {
        showSource(row.frame, names);
        sourceLine.value = null;
      }}
    />
  );
}

interface FileProps {
  names: Names;
  frame: number;
  rows: Row[];
  findings: LineFinding[];
  /** Null until it is read, and in a page without a server. */
  text: Source | null;
  error: string | null;
  when: string;
}

function File({ names, frame, rows, findings, text, error, when }: FileProps) {
  const lines = useMemo(() => linesOf(rows, findings, text?.text ?? null), [rows, findings, text]);
  const hot = useMemo(() => hotLines(lines), [lines]);
  const most = Math.max(hot[0]?.live ?? 0, 1);
  const chosen = lines.findIndex(({ number }) => number === sourceLine.value);
  const line = chosen < 0 ? null : entryAt(lines, chosen);
  const rank = line === null ? -1 : hot.indexOf(line);
  const step = (by: 1 | -1) => {
    if (hot.length === 0) return;
    const to = rank < 0 ? (by > 0 ? 0 : hot.length - 1) : (rank + by + hot.length) % hot.length;
    sourceLine.value = entryAt(hot, to).number;
  };
  const find = () => {
    if (line?.frame !== undefined) search.value = `"${entryAt(names.label, line.frame).replaceAll('"', '')}"`;
  };
  const keys = (e: KeyboardEvent) => {
    if ((e.key !== 'h' && e.key !== 'H') || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    step(e.key === 'h' ? 1 : -1);
  };
  const row = (at: number) => <Margin line={entryAt(lines, at)} most={most} />;
  return (
    <section class="source-file" aria-label={shortFile(names, frame)} onKeyDown={keys}>
      <header class="panel-head">
        <div class="panel-title">
          <h2>{shortFile(names, frame)}</h2>
          <span class="quiet">memory {when}</span>
          <span class="spring" />
          <Button onClick={leaveSource}>All files</Button>
        </div>
        <Taken text={text} error={error} recorded={names.file[frame] ?? ''} />
        <div class="toolbar">
          <Button onClick={() => step(-1)} disabled={hot.length === 0}>
            Previous hot line
          </Button>
          <Button onClick={() => step(1)} disabled={hot.length === 0}>
            Next hot line
          </Button>
          <span class="quiet" role="status" data-hot={rank + 1}>
            {rank < 0 ? `${count(hot.length)} lines with memory` : `${count(rank + 1)} of ${count(hot.length)} lines with memory`}
          </span>
          <Button onClick={find} disabled={line?.frame === undefined}>
            Search for this line
          </Button>
          {line?.findings.map((finding) => (
            <Finding key={`${finding.kind} ${finding.number}`} {...finding} />
          ))}
        </div>
      </header>
      {lines.length === 0 ? (
        <Empty title="No line of this file has memory." />
      ) : (
        <div class="source-lines">
          <div class="source-head" aria-hidden="true">
            <span class="numeric">Live</span>
            <span class="numeric">Own</span>
            <span class="numeric">Allocated</span>
            <span class="numeric">Allocations</span>
            <span>Findings</span>
            <span class="numeric">Line</span>
            <span>Source</span>
          </div>
          <VirtualList
            id="source-lines"
            label="Source lines"
            count={lines.length}
            rowHeight={ROW}
            chosen={chosen < 0 ? null : chosen}
            choose={(at) => (sourceLine.value = entryAt(lines, at).number)}
            enter={find}
            row={row}
          />
        </div>
      )}
    </section>
  );
}

const amount = (n: number | undefined) => (n ? bytes(n) : '');

function Margin({ line, most }: { line: Line; most: number }) {
  return (
    <>
      <span class="numeric" title={line.live ? `${count(line.live)} bytes` : undefined}>
        <span class="source-heat" style={{ width: `${((line.live ?? 0) / most) * 100}%` }} />
        {amount(line.live)}
      </span>
      <span class="numeric">{amount(line.own)}</span>
      <span class="numeric">{amount(line.allocated)}</span>
      <span class="numeric">{line.count ? count(line.count) : ''}</span>
      <span class="source-marks">{line.findings.map(({ kind, number }) => `${kind} ${number}`).join(', ')}</span>
      <span class="numeric quiet">{line.number}</span>
      <code>{line.text ?? ''}</code>
    </>
  );
}

const FINDINGS: Record<LineFinding['kind'], (amount: string) => string> = {
  leak: (amount) => `may leak: ${amount} retained`,
  idle: (amount) => `idle memory: ${amount}`,
  holder: (amount) => `holds ${amount} at the moment`,
};

function Finding({ kind, number, bytes: of }: LineFinding) {
  const text = FINDINGS[kind](bytes(of));
  if (kind === 'holder') return <span class="source-marks">{text}</span>;
  return (
    <button type="button" class="link-button" onClick={() => (search.value = `${kind}:${number}`)}>
      {text}
    </button>
  );
}

/** Which file is shown, or why there is none. */
function Taken({ text, error, recorded }: { text: Source | null; error: string | null; recorded: string }) {
  if (!source.readSource) {
    return (
      <p class="quiet">
        A page without a server cannot read source files, so lines have no text. <code>vramscope view --source DIR FILE</code>{' '}
        shows it.
      </p>
    );
  }
  if (error) return <p role="alert">{error}</p>;
  if (!text) return <p class="quiet">Reading the file.</p>;
  const { folders, files, taken, why } = text;
  if (folders.length === 0) {
    return (
      <p class="quiet">
        Lines have no text, because no folder was named. <code>vramscope view --source DIR FILE</code> shows the files of DIR.
      </p>
    );
  }
  if (!isPlace(recorded) || files.length === 0) {
    return (
      <p class="quiet">
        No file in {folders.join(', ')} has the name of {recorded}
        {why && `; ${why}`}.
      </p>
    );
  }
  const at = taken === null ? null : (files[taken] ?? null);
  return (
    <div class="source-taken">
      {at && (
        <p class="quiet">
          {at.path}: {at.equal} of {at.recorded} parts of the recorded path match{why && `; ${why}`}.
        </p>
      )}
      {files.length > 1 && (
        <div class="button-row" role="group" aria-label="Files that match equally well">
          {!at && <span class="quiet">Several files match {recorded} equally well:</span>}
          {files.map(({ path }, i) => (
            <button key={path} type="button" class="button" aria-pressed={i === taken} onClick={() => (sourceChoice.value = i)}>
              {path}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
