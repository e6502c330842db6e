// The peak with changes to the program, estimated after an out of memory.

import type { ReportEstimates } from '../../source/generated/report';
import { bytes } from '../../text/units';
import { Card, exactBytes, useFirstRows } from './card';

export function EstimatesCard({ estimates }: { estimates: ReportEstimates | undefined }) {
  if (!estimates || estimates.changes.length === 0) return null;
  return <Estimates {...estimates} />;
}

function Estimates({ basis, changes }: ReportEstimates) {
  const [shown, rest] = useFirstRows(changes);
  return (
    <Card title="Estimated changes">
      {basis.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      <ul class="finding-rows">
        {shown.map((estimate) => (
          <li key={estimate.change}>
            <b title={exactBytes(estimate.peak_allocated_bytes)}>{bytes(estimate.peak_allocated_bytes)}</b>
            <span>
              {estimate.name}
              <br />
              {estimate.text}
              {estimate.lines.length > 0 && (
                <details>
                  <summary>Lines to paste</summary>
                  <pre>{estimate.lines.join('\n')}</pre>
                </details>
              )}
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </Card>
  );
}
