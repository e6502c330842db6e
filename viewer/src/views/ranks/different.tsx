// The ranks that differ, each as a small timeline beside a usual rank's.

import { Button } from '../../parts/controls';
import type { DifferentRank, Ranks } from '../../source/source';
import { compareRanks, counter, openRank, type Counter } from '../../state/ranks';
import { bytes, count } from '../../text/units';
import { bytesAt, peakOf } from './rows';

/** The most ranks shown here; the table has all. */
const MOST = 24;

export function Different({ told }: { told: Ranks }) {
  const of = counter.value;
  const shown = told.different.slice(0, MOST);
  if (shown.length === 0) return null;
  const all = shown.flatMap(({ at, beside }) => (beside === null ? [at] : [at, beside]));
  const high = Math.max(1, ...all.map((at) => peakOf(told.ranks[at]!, of) ?? 0));
  return (
    <section class="different" aria-label="Ranks that differ">
      <header class="table-head">
        <h3>Ranks that differ</h3>
        <span class="quiet">
          {count(told.different.length)}, each beside a usual rank; {of} bytes up to {bytes(high)}
          {told.different.length > MOST && `; the first ${MOST}`}
        </span>
      </header>
      <div class="different-cards">
        {shown.map((one) => (
          <One key={one.at} told={told} one={one} of={of} high={high} />
        ))}
      </div>
    </section>
  );
}

interface OneProps {
  told: Ranks;
  one: DifferentRank;
  of: Counter;
  high: number;
}

function One({ told, one: { at, beside, reasons }, of, high }: OneProps) {
  const number = (rank: number) => told.ranks[rank]?.rank;
  return (
    <article class="card different-rank" data-rank={number(at)} aria-label={`Rank ${number(at)}`}>
      <ul>
        {reasons.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      <div class="different-pair">
        <Small told={told} rank={at} of={of} high={high} title={`Rank ${number(at)}`} />
        {beside !== null && <Small told={told} rank={beside} of={of} high={high} title={`Rank ${number(beside)}, as usual`} />}
      </div>
      {beside !== null && (
        <Button onClick={() => compareRanks(at, beside)}>
          Compare {number(beside)} with {number(at)}
        </Button>
      )}
    </article>
  );
}

const HEIGHT = 40;

interface SmallProps {
  told: Ranks;
  rank: number;
  of: Counter;
  high: number;
  title: string;
}

/** A rank over time; a click opens it. */
function Small({ told, rank, of, high, title }: SmallProps) {
  const { cells } = told;
  const y = (cell: number) => (HEIGHT - (bytesAt(told, of, rank, cell) / high) * HEIGHT).toFixed(2);
  const line = Array.from({ length: cells }, (_, cell) => `${cell} ${y(cell)}H${cell + 1}`).join('L');
  const one = told.ranks[rank];
  const failed = one && one.failed_bytes !== null ? (one.failed_cell ?? cells - 1) : null;
  return (
    <button type="button" class="small-rank" title={`Open ${one?.file ?? ''}`} onClick={() => openRank(rank)}>
      <span>
        {title} <span class="quiet">{bytes((one && peakOf(one, of)) ?? 0)}</span>
      </span>
      <span class="small-course">
        <svg viewBox={`0 0 ${cells} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" class={`ink-of-${of}`}>
          <path d={`M0 ${HEIGHT}L${line}V${HEIGHT}Z`} />
        </svg>
        {failed !== null && (
          <span class="small-failed" style={{ left: `${((failed + 0.5) / cells) * 100}%` }} aria-hidden="true">
            ×
          </span>
        )}
      </span>
    </button>
  );
}
