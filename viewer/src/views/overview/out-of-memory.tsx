// Failed requests: their causes, and the setting that would have helped. The sentences are the report's.

import { Sentence } from '../../parts/sentence';
import type { Oom } from '../../source/generated/report';
import type { OomFinding, Report } from '../../source/source';
import { bytes, count } from '../../text/units';
import { Card, ViewLink, counted, useFirstRows } from './card';

interface OutOfMemoryProps {
  oom: Oom;
  finding: OomFinding;
  bestSetting: string | null;
}

function OutOfMemory({ oom, finding, bestSetting }: OutOfMemoryProps) {
  const moment = oom.event + 1;
  return (
    <Card title={`Out of memory: ${bytes(oom.requested_bytes)} requested`} tone="bad">
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
          <ul class="finding-list">
            {finding.unusable.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </>
      )}
      {finding.pinned.length > 0 && (
        <>
          <p>{finding.pinned[0]}</p>
          <ul class="finding-list">
            {finding.pinned.slice(1).map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </>
      )}
      <p class="finding-verdict">
        <Sentence text={finding.cause} />
        {bestSetting !== null && (
          <>
            {' '}
            <Sentence text={bestSetting} />
          </>
        )}
      </p>
      <p class="finding-links">
        <ViewLink to="moment" moment={moment}>
          Show the holders
        </ViewLink>
        <ViewLink to="state" moment={moment}>
          Show the request beside the holes
        </ViewLink>
        <ViewLink to="segments" moment={moment}>
          Show the segments
        </ViewLink>
        <ViewLink to="whatif">Try other settings</ViewLink>
      </p>
    </Card>
  );
}

/** The first failed request in full, and a list of the others. */
export function OutOfMemoryCards({ report }: { report: Report }) {
  const { ooms, more_ooms: unexplained } = report.device;
  const [first, ...others] = ooms;
  const [finding] = report.ooms;
  const [shown, rest] = useFirstRows(others);
  if (!first || !finding) return null;
  const more = others.length + unexplained;
  return (
    <>
      <OutOfMemory oom={first} finding={finding} bestSetting={report.best_setting} />
      {more > 0 && (
        <Card title={`${counted(more, 'more request')} failed`} tone="bad">
          <ul class="finding-rows">
            {shown.map((oom) => (
              <li key={oom.event}>
                <ViewLink to="moment" moment={oom.event + 1}>
                  event {count(oom.event)}
                </ViewLink>
                <span>
                  {bytes(oom.requested_bytes)} requested, {bytes(oom.reserved_unused_bytes)} reserved and unused
                </span>
              </li>
            ))}
          </ul>
          {rest}
          {unexplained > 0 && (
            <p class="quiet">{count(unexplained)} later ones are marked in the timeline: the key m goes to the next.</p>
          )}
        </Card>
      )}
    </>
  );
}
