// Buffers of collectives at the peak, by operation, stream and process group.

import { batch } from '@preact/signals';
import { poolName, streamName } from '../../names/tags';
import type { ReportCollective, ReportFrame } from '../../source/generated/report';
import { view } from '../../state/place';
import { search } from '../../state/search';
import { bytes, count } from '../../text/units';
import { BytesCell, Card, TableHead, frameText, useFirstRows } from './card';

/** Compiled code has no line. */
const shownFrame = (frame: ReportFrame) => (frame.filename.endsWith('.py') ? frameText(frame) : frame.name);

/** Searches for the allocations through a frame. */
function find(frame: ReportFrame): void {
  batch(() => {
    search.value = `"${shownFrame(frame).replaceAll('"', '')}"`;
    view.value = 'timeline';
  });
}

export function CollectivesCard({ collectives = [] }: { collectives: ReportCollective[] | undefined }) {
  const [shown, rest] = useFirstRows(collectives);
  if (collectives.length === 0) return null;
  const all = collectives.reduce((sum, one) => sum + one.bytes, 0);
  return (
    <Card title={`Buffers of collectives: ${bytes(all)} at the peak`}>
      <table class="numbers">
        <TableHead
          columns={{ Operation: 'words', Stream: 'words', Blocks: 'numeric', 'At the peak': 'numeric', Highest: 'numeric' }}
        />
        <tbody>
          {shown.map((one) => (
            <tr key={`${one.operation} ${one.stream} ${one.process_group_pool}`}>
              <th scope="row">
                <button type="button" class="link-button" onClick={() => find(one.frame)}>
                  {one.operation}
                </button>
                <div class="quiet" title={one.line ? `from ${frameText(one.line)}` : undefined}>
                  {shownFrame(one.frame)}
                </div>
                {one.process_group_pool && <div class="quiet">process group of {poolName(one.process_group_pool)}</div>}
              </th>
              <td>{streamName(one.stream)}</td>
              <td class="numeric" title={`${count(one.allocations)} allocations in the whole recording`}>
                {count(one.blocks)}
              </td>
              <BytesCell n={one.bytes} />
              <BytesCell n={one.peak_bytes} />
            </tr>
          ))}
        </tbody>
      </table>
      {rest}
      {collectives.some((one) => one.process_group_pool === null) && (
        <p class="quiet">
          The process group is not recorded: PyTorch's history only shows it for tensors of <code>allocate_tensor</code>, with C++
          stacks.
        </p>
      )}
    </Card>
  );
}
