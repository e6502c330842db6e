// The first page: what the recording says, as findings that lead into the other views.

import { batch } from '@preact/signals';
import { Fragment, type ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useAnswer } from '../parts/answer';
import { useCurrent, type Current } from '../parts/current';
import { KINDS, type Device, type Recording } from '../source/source';
import type {
  Fragmentation,
  Holder,
  Leak,
  Oom,
  Region,
  RegionRun,
  ReportDevice as Report,
  ReportFrame,
  Unusable,
  Why,
} from '../source/generated/report';
import { once } from '../state/asked';
import { chooseMoment } from '../state/moves';
import { view, type ViewName } from '../state/place';
import { recording, source } from '../state/recordings';
import { search } from '../state/search';
import { baseName } from '../text/path';
import { bytes, count, duration, share, signedBytes } from '../text/units';

const reportOf = once((file, device, unwanted) => source.report(file, device, unwanted));

/** Rows of a list at first, and how many more at a time. */
const SHORT = 8;
const MORE = 100;

/** The first rows of a list, and what asks for more of them. */
function useShort<T>(all: readonly T[]): [shown: readonly T[], more: ComponentChildren] {
  const [most, setMost] = useState(SHORT);
  const left = all.length - most;
  const more = left > 0 && (
    <p>
      <button type="button" class="link-button" onClick={() => setMost(most + MORE)}>
        {left > MORE ? `${count(MORE)} of ${count(left)} more` : `${count(left)} more`}
      </button>
    </p>
  );
  return [all.slice(0, most), more];
}

const places = (n: number, one: string, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
const frameText = (frame: ReportFrame) => `${baseName(frame.filename)}:${frame.line} ${frame.name}`;
const exactly = (n: number) => `${count(n)} bytes`;

function Card({ title, tone, children }: { title: string; tone?: 'bad' | 'warn'; children: ComponentChildren }) {
  return (
    <section class={tone ? `card card-${tone}` : 'card'}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function Go({ to, moment, children }: { to: ViewName; moment?: number; children: ComponentChildren }) {
  const go = () =>
    batch(() => {
      view.value = to;
      if (moment !== undefined) chooseMoment(moment);
    });
  return (
    <button type="button" class="link-button" onClick={go}>
      {children}
    </button>
  );
}

function Bytes({ device }: { device: Device }) {
  return (
    <Card title="Memory">
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Bytes</th>
            <th scope="col" class="numeric">
              At the start
            </th>
            <th scope="col" class="numeric">
              Peak
            </th>
            <th scope="col">Reached</th>
            <th scope="col" class="numeric">
              At the end
            </th>
          </tr>
        </thead>
        <tbody>
          {KINDS.map((kind) => {
            const peak = device.peaks[kind];
            return (
              <tr key={kind}>
                <th scope="row">
                  <span class={`kind-dot ink-${kind}`} />
                  {kind}
                </th>
                <td class="numeric" title={exactly(device.start[kind])}>
                  {bytes(device.start[kind])}
                </td>
                <td class="numeric" data-peak={kind} data-bytes={peak.bytes} title={exactly(peak.bytes)}>
                  <b>{bytes(peak.bytes)}</b>
                </td>
                <td>
                  {device.events === 0 ? (
                    ''
                  ) : (
                    <Go to="moment" moment={peak.moment}>
                      moment {count(peak.moment)}
                    </Go>
                  )}
                </td>
                <td class="numeric" data-end={kind} data-bytes={device.end[kind]} title={exactly(device.end[kind])}>
                  {bytes(device.end[kind])}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="quiet">
        {places(device.events, 'event')}, {places(device.allocations, 'allocation')}
        {device.duration_us === null ? '' : `, ${duration(device.duration_us)}`}
        {device.preexisting > 0 ? `; ${places(device.preexisting, 'block was', 'blocks were')} live before recording began` : ''}.
      </p>
    </Card>
  );
}

const WHY: Record<Why, string> = {
  too_small: 'in blocks that are too small',
  other_stream: 'in blocks of other streams',
  other_size_class: 'in blocks for requests of another size class',
  other_pool: 'in blocks of other pools',
};

function UnusableList({ all }: { all: Unusable[] }) {
  return (
    <ul class="finding-list">
      {all.map((u) => (
        <li key={u.why}>
          <b>{bytes(u.bytes)}</b> {WHY[u.why]} ({places(u.blocks, 'block')}, the largest {bytes(u.largest_bytes)})
        </li>
      ))}
    </ul>
  );
}

function OutOfMemory({ oom, report }: { oom: Oom; report: Report }) {
  const at = oom.event + 1;
  return (
    <Card title={`Out of memory: ${bytes(oom.requested_bytes)} asked for`} tone="bad">
      <p>
        At event {count(oom.event)}, with {bytes(oom.allocated_bytes)} allocated and {bytes(oom.reserved_bytes)} reserved, the
        device had {bytes(oom.device_free_bytes)} free.
      </p>
      {oom.reserved_unused_bytes > 0 && (
        <>
          <p>
            {bytes(oom.reserved_unused_bytes)} was reserved and unused;{' '}
            {oom.usable_bytes === 0 ? 'none of it' : bytes(oom.usable_bytes)} could serve the request:
          </p>
          <UnusableList all={oom.unusable} />
        </>
      )}
      <p class="finding-verdict">
        {oom.enough_in_total
          ? 'There was enough in total: this is fragmentation.'
          : `Even without fragmentation ${bytes(oom.missing_bytes)} would have been missing.`}
        {report.best_setting && <> {bestSetting(report.best_setting)}</>}
      </p>
      <p class="finding-links">
        <Go to="moment" moment={at}>
          Who held the memory
        </Go>
        <Go to="segments" moment={at}>
          The segments then
        </Go>
        <Go to="whatif">Other settings</Go>
      </p>
    </Card>
  );
}

function bestSetting(best: NonNullable<Report['best_setting']>): string {
  const what = `${best.conf || 'the default settings'} would have reserved at most ${bytes(best.peak_reserved_bytes)}`;
  const fits = best.fits ? 'and fitted' : 'and still not fitted';
  return `Best setting: ${what} ${fits}${best.exact ? '' : ' (estimated)'}.`;
}

function OutOfMemories({ report }: { report: Report }) {
  const [first, ...others] = report.ooms;
  const [shown, rest] = useShort(others);
  if (!first) return null;
  const more = others.length + report.more_ooms;
  return (
    <>
      <OutOfMemory oom={first} report={report} />
      {more > 0 && (
        <Card title={`${places(more, 'more request')} failed`} tone="bad">
          <ul class="finding-rows">
            {shown.map((oom) => (
              <li key={oom.event}>
                <Go to="moment" moment={oom.event + 1}>
                  event {count(oom.event)}
                </Go>
                <span>
                  {bytes(oom.requested_bytes)} asked for, {bytes(oom.reserved_unused_bytes)} reserved and unused
                </span>
              </li>
            ))}
          </ul>
          {rest}
          {report.more_ooms > 0 && (
            <p class="quiet">{count(report.more_ooms)} later ones are marked in the timeline: the key ] goes to the next.</p>
          )}
        </Card>
      )}
    </>
  );
}

/** The fewest live from each tenth of the run on: a leak climbs. */
function Floor({ floor }: { floor: number[] }) {
  const most = Math.max(...floor, 1);
  return (
    <svg
      class="leak-floor"
      viewBox={`0 0 ${floor.length * 6} 20`}
      role="img"
      aria-label={`Fewest live, by tenths of the run: ${floor.join(', ')}`}
    >
      {floor.map((n, i) => (
        <rect key={i} x={i * 6} y={20 - (n / most) * 20} width={5} height={(n / most) * 20} />
      ))}
    </svg>
  );
}

function Leaks({ leaks }: { leaks: Leak[] }) {
  const [shown, rest] = useShort(leaks);
  if (leaks.length === 0) return null;
  const find = (leak: Leak) =>
    batch(() => {
      search.value = `"${frameText(leak.line)}"`;
      view.value = 'timeline';
    });
  return (
    <Card title={leaks.length === 1 ? 'One line may leak' : `${count(leaks.length)} lines may leak`} tone="warn">
      <ul class="finding-rows finding-rows-tall">
        {shown.map((leak, i) => (
          <li key={i}>
            <Floor floor={leak.floor} />
            <span>
              <button type="button" class="link-button" onClick={() => find(leak)}>
                {frameText(leak.line)}
              </button>
              <br />
              {count(leak.kept)} of {places(leak.allocations, 'allocation')} never freed: {bytes(leak.kept_bytes)}
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </Card>
  );
}

function Holders({ holders, peak }: { holders: Holder[]; peak: Device['peaks']['allocated'] }) {
  return (
    <Card title={`Who held the ${bytes(peak.bytes)} at the peak`}>
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Stack</th>
            <th scope="col" class="numeric">
              Blocks
            </th>
            <th scope="col" class="numeric">
              Bytes
            </th>
            <th scope="col" class="numeric">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {holders.slice(0, SHORT).map((holder, i) => (
            <tr key={i}>
              <td class="wide">{holderText(holder)}</td>
              <td class="numeric">{count(holder.count)}</td>
              <td class="numeric" title={exactly(holder.bytes)}>
                {bytes(holder.bytes)}
              </td>
              <td class="numeric">{share(holder.bytes, peak.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="finding-links">
        <Go to="moment" moment={peak.moment}>
          {holders.length > SHORT ? `All ${count(holders.length)}, as a flame graph` : 'As a flame graph'}
        </Go>
      </p>
    </Card>
  );
}

/** The innermost Python frame, and the group that it belongs to. */
function holderText(holder: Holder): string {
  const inner = holder.stack.find((frame) => frame.filename.endsWith('.py'));
  const key = inner && frameText(inner) !== holder.key ? `${frameText(inner)} ‹ ${holder.key}` : holder.key;
  return holder.preexisting ? `${key} (live before recording)` : key;
}

function FragmentationCard({ at_peak: atPeak, at_end: atEnd }: Report['fragmentation']) {
  if (!atPeak && !atEnd) return null;
  const row = (name: string, of: (f: Fragmentation) => number, title: string) => (
    <tr>
      <th scope="row" title={title}>
        {name}
      </th>
      {[atPeak, atEnd].map((f, i) => (
        <td key={i} class="numeric" title={f ? exactly(of(f)) : 'Nothing was allocated then.'}>
          {f ? bytes(of(f)) : '–'}
        </td>
      ))}
    </tr>
  );
  const request = (atPeak ?? atEnd)!.request_bytes;
  return (
    <Card title="Fragmentation">
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Bytes</th>
            <th scope="col" class="numeric">
              At the peak
            </th>
            <th scope="col" class="numeric">
              At the end
            </th>
          </tr>
        </thead>
        <tbody>
          {row('lost to rounding', (f) => f.internal_bytes, 'allocated - requested: internal fragmentation')}
          {row('reserved and unused', (f) => f.external_bytes, 'reserved - active')}
          {row('of it whole segments', (f) => f.whole_segments_bytes, 'can go back to the device at any time')}
          {row('largest free block', (f) => f.largest_free_block?.bytes ?? 0, 'the largest request that needs no new segment')}
          {row(`usable for ${bytes(request)}`, (f) => f.usable_bytes, 'in blocks that could serve one more request of this size')}
        </tbody>
      </table>
      <p class="finding-links">
        <Go to="segments">The segments</Go>
      </p>
    </Card>
  );
}

/** One run of a region; those of the first and the largest stand below the typical one. */
function RegionFigures({ name, runs, run }: { name: string; runs?: number; run: RegionRun }) {
  return (
    <tr class={runs === undefined ? 'quiet' : undefined}>
      {runs === undefined ? (
        <td class="wide">{name}</td>
      ) : (
        <th scope="row" class="wide">
          {name}
        </th>
      )}
      <td class="numeric">{runs === undefined ? '' : count(runs)}</td>
      <td class="numeric" title={exactly(run.peak_allocated_bytes)}>
        {bytes(run.peak_allocated_bytes)}
      </td>
      <td class="numeric" title={exactly(run.peak_above_start_bytes)}>
        {bytes(run.peak_above_start_bytes)}
      </td>
      <td class="numeric" title={exactly(run.net_bytes)}>
        {signedBytes(run.net_bytes)}
      </td>
      <td class="numeric">{duration(run.us)}</td>
    </tr>
  );
}

/** Memory that differs; times always do. */
const differs = (a: RegionRun, b: RegionRun) =>
  a.peak_allocated_bytes !== b.peak_allocated_bytes ||
  a.peak_above_start_bytes !== b.peak_above_start_bytes ||
  a.net_bytes !== b.net_bytes;

function Regions({ regions }: { regions: Region[] }) {
  const [shown, rest] = useShort(regions);
  if (regions.length === 0) return null;
  return (
    <Card title="Annotated regions">
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Region</th>
            <th scope="col" class="numeric">
              Runs
            </th>
            <th scope="col" class="numeric">
              Peak
            </th>
            <th scope="col" class="numeric">
              Above its start
            </th>
            <th scope="col" class="numeric">
              Left behind
            </th>
            <th scope="col" class="numeric">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((r) => (
            <Fragment key={r.name}>
              <RegionFigures name={r.name} runs={r.count} run={r.typical} />
              {differs(r.first, r.typical) && <RegionFigures name="the first" run={r.first} />}
              {differs(r.largest, r.typical) && <RegionFigures name="the largest" run={r.largest} />}
            </Fragment>
          ))}
        </tbody>
      </table>
      {regions.some((r) => r.count > 1) && (
        <p class="quiet">
          Figures are those of one run: of each the one in the middle, and what the first and the largest had where it differs.
        </p>
      )}
      {rest}
    </Card>
  );
}

function Trust({ device, report }: { device: Device; report: Report }) {
  const { exact, reproduced } = report.quality;
  const sound = exact && device.doubts.length === 0;
  return (
    <Card title={sound ? 'The numbers are exact' : 'Some numbers may not be exact'} {...(sound ? {} : { tone: 'warn' as const })}>
      {device.doubts.length > 0 && (
        <ul class="finding-list">
          {device.doubts.map((doubt) => (
            <li key={doubt}>{doubt}</li>
          ))}
        </ul>
      )}
      <p>
        {reproduced === true && 'A replay under the recorded settings gives every segment of the recording.'}
        {reproduced === false && 'A replay under the recorded settings does not give the recording.'}
        {reproduced === null && 'The layout told every size; no replay was needed.'}
      </p>
    </Card>
  );
}

function FactList({ title, facts }: { title: string; facts: [string, string][] }) {
  if (facts.length === 0) return null;
  return (
    <Card title={title}>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === '' ? '(empty)' : value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

export function OverviewView() {
  const open = recording.value;
  const shown = useCurrent();
  if (!open || !shown) return null;
  return <Overview key={shown.scope} open={open} {...shown} />;
}

function Overview({ open, file, device, scope, recording }: Current & { open: Recording }) {
  const answer = useAnswer(scope, scope, (unwanted) => reportOf(file, device, unwanted));
  const report = answer.value;
  return (
    <div class="overview" aria-busy={report === null}>
      <div class="overview-column">
        {report && <OutOfMemories report={report} />}
        {report && <Leaks leaks={report.leaks} />}
        <Bytes device={recording} />
        {report && <FragmentationCard {...report.fragmentation} />}
        {report && <Trust device={recording} report={report} />}
      </div>
      <div class="overview-column">
        {report ? (
          <Holders holders={report.holders_at_peak ?? []} peak={recording.peaks.allocated} />
        ) : (
          <p class="page-note" role="status">
            {answer.error ?? 'Reading the findings.'}
          </p>
        )}
        {report && <Regions regions={report.regions} />}
        <FactList title="Allocator settings" facts={open.settings} />
        <FactList title="File" facts={open.facts} />
      </div>
    </div>
  );
}
