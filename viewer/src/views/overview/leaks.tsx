// Lines whose blocks pile up.

import { batch } from '@preact/signals';
import type { Leak } from '../../source/generated/report';
import { view } from '../../state/place';
import { search } from '../../state/search';
import { bytes, count } from '../../text/units';
import { Card, counted, frameText, useFirstRows } from './card';

/** Bars: the fewest blocks of a line that were live in each tenth of the run. Those of a leak climb. */
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

export function LeaksCard({ leaks }: { leaks: Leak[] }) {
  const [shown, rest] = useFirstRows(leaks);
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
              {count(leak.kept)} of {counted(leak.allocations, 'allocation')} never freed: {bytes(leak.kept_bytes)}
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </Card>
  );
}
