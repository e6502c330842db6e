// Lines whose live blocks keep growing.

import { batch } from '@preact/signals';
import type { Leak } from '../../source/generated/report';
import { view } from '../../state/place';
import { search } from '../../state/search';
import { bytes, count } from '../../text/units';
import { Card, counted, frameText, useFirstRows } from './card';

/** The position of the tenth that ends in the middle. */
const HALF = 4;

/** A line: the bytes of the kept blocks by the end of each tenth of the run. */
function Growth({ of }: { of: number[] }) {
  const most = Math.max(...of, 1);
  const points = [0, ...of].map((n, i) => `${(i / of.length) * 60},${19 - (n / most) * 18}`).join(' ');
  return (
    <svg
      class="leak-growth"
      viewBox="0 0 60 20"
      role="img"
      aria-label={`Kept, by tenths of the run: ${of.map(bytes).join(', ')}`}
    >
      <polyline points={points} />
    </svg>
  );
}

/** As in the report's first lines: what is shown to grow is not only suspected. */
export function leakTitle(leaks: Leak[]) {
  const lines = leaks.length === 1 ? 'one line' : `${count(leaks.length)} lines`;
  return leaks.some((leak) => leak.certainty === 'shown') ? `Memory grows at ${lines}` : `Leak likely at ${lines}`;
}

export function LeaksCard({ leaks }: { leaks: Leak[] }) {
  const [shown, rest] = useFirstRows(leaks);
  if (leaks.length === 0) return null;
  const find = (number: number) =>
    batch(() => {
      search.value = `leak:${number}`;
      view.value = 'timeline';
    });
  return (
    <Card title={leakTitle(leaks)} tone="warn">
      <ul class="finding-rows finding-rows-tall">
        {shown.map((leak, i) => (
          <li key={i}>
            <Growth of={leak.kept_bytes_by_then} />
            <span>
              <button type="button" class="link-button" onClick={() => find(i + 1)}>
                {frameText(leak.line)}
              </button>
              <br />
              {count(leak.kept)} of {counted(leak.allocations, 'allocation')} kept to the end: {bytes(leak.kept_bytes)}, of which{' '}
              {bytes(leak.kept_bytes_by_then[HALF] ?? 0)} by the middle of the run
              {leak.kept_bytes_per_step
                ? `; ${bytes(leak.kept_bytes_per_step)} a step (median)`
                : `; ${bytes(leak.kept_bytes_per_repetition)} each time`}{' '}
              ({leak.certainty})
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </Card>
  );
}
