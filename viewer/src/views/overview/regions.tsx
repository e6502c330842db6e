// Annotated regions: the memory of one run of each.

import { Fragment } from 'preact';
import type { Region, RegionRun } from '../../source/generated/report';
import { showRun } from '../../state/regions';
import { count, duration, signedBytes } from '../../text/units';
import { BytesCell, Card, TableHead, exactBytes, useFirstRows } from './card';

/** A row for one run of a region. The typical run names the region and counts its runs; the first and the largest follow below. */
function RegionFigures({ name, runs, run, place }: { name: string; runs?: number; run: RegionRun; place: RegionRun }) {
  const { first_event: first, end_event: end } = place;
  const link = (
    <button
      type="button"
      class="link-button region-name"
      title={name}
      disabled={first === undefined || end === undefined}
      onClick={() => showRun(first ?? 0, end ?? 0)}
    >
      {name}
    </button>
  );
  return (
    <tr class={runs === undefined ? 'quiet' : undefined}>
      {runs === undefined ? (
        <td class="wide">{link}</td>
      ) : (
        <th scope="row" class="wide">
          {link}
        </th>
      )}
      <td class="numeric">{runs === undefined ? '' : count(runs)}</td>
      <BytesCell n={run.peak_allocated_bytes} />
      <BytesCell n={run.peak_above_start_bytes} />
      <td class="numeric" title={exactBytes(run.net_bytes)}>
        {signedBytes(run.net_bytes)}
      </td>
      <td class="numeric">{duration(run.us)}</td>
    </tr>
  );
}

/** Whether two runs differ in memory. Their times are not compared, because they always differ. */
const differs = (a: RegionRun, b: RegionRun) =>
  a.peak_allocated_bytes !== b.peak_allocated_bytes ||
  a.peak_above_start_bytes !== b.peak_above_start_bytes ||
  a.net_bytes !== b.net_bytes;

export function RegionsCard({ regions }: { regions: Region[] }) {
  const [shown, rest] = useFirstRows(regions);
  if (regions.length === 0) return null;
  return (
    <Card title="Annotated regions">
      <table class="numbers">
        <TableHead
          columns={{
            Region: 'words',
            Runs: 'numeric',
            Peak: 'numeric',
            'Above its start': 'numeric',
            Retained: 'numeric',
            Time: 'numeric',
          }}
        />
        <tbody>
          {shown.map((r) => (
            <Fragment key={r.name}>
              <RegionFigures name={r.name} runs={r.count} run={r.typical} place={r.largest} />
              {differs(r.first, r.typical) && <RegionFigures name="the first" run={r.first} place={r.first} />}
              {differs(r.largest, r.typical) && <RegionFigures name="the highest peak" run={r.largest} place={r.largest} />}
            </Fragment>
          ))}
        </tbody>
      </table>
      {regions.some((r) => r.count > 1) && (
        <p class="quiet">
          Figures are those of one run: the median of all runs after the first, of two runs the second; the first run, and the run
          with the highest peak, where they differ. A click shows the run with the highest peak.
        </p>
      )}
      {rest}
    </Card>
  );
}
