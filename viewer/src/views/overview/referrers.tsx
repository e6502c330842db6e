// Tensors whose referrers the program named when it took the snapshot.

import { batch } from '@preact/signals';
import type { ReportReferredTensor } from '../../source/generated/report';
import { view } from '../../state/place';
import { selected } from '../../state/selection';
import { bytes } from '../../text/units';
import { Card, exactBytes, useFirstRows } from './card';

function select(allocation: number): void {
  batch(() => {
    selected.value = allocation;
    view.value = 'timeline';
  });
}

function TensorList({ tensors, allocations }: { tensors: ReportReferredTensor[]; allocations: number[] }) {
  const [shown, rest] = useFirstRows(tensors);
  return (
    <>
      <ul class="finding-rows">
        {shown.map((tensor, i) => (
          <li key={allocations[i]}>
            <b title={exactBytes(tensor.bytes)}>{bytes(tensor.bytes)}</b>
            <span>
              <button type="button" class="link-button" onClick={() => select(allocations[i]!)}>
                {tensor.name ? `${tensor.name}, ` : ''}
                {tensor.dtype} {tensor.shape}
              </button>
              <ul class="referrers">
                {tensor.referrers.map((chain) => (
                  <li key={chain}>{chain}</li>
                ))}
              </ul>
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </>
  );
}

export function ReferrersCard({ tensors, allocations }: { tensors: ReportReferredTensor[] | undefined; allocations: number[] }) {
  if (!tensors) return null;
  return (
    <Card title="References at the snapshot">
      <TensorList tensors={tensors} allocations={allocations} />
    </Card>
  );
}
