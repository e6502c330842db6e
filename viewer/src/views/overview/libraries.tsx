// Memory of the process beside PyTorch's allocator, by the library that took it.

import type { ReportLibrary } from '../../source/generated/report';
import { count } from '../../text/units';
import { BytesCell, Card, TableHead, frameText } from './card';

export function LibrariesCard({ libraries }: { libraries: ReportLibrary[] | undefined }) {
  if (!libraries?.length) return null;
  return (
    <Card title="Memory of other libraries">
      <table class="numbers">
        <TableHead
          columns={{
            Library: 'words',
            Memory: 'words',
            Allocations: 'numeric',
            'At the peak': 'numeric',
            Highest: 'numeric',
            'At the end': 'numeric',
          }}
        />
        <tbody>
          {libraries.map((one) => (
            <tr key={`${one.library} ${one.memory}`}>
              <th scope="row">
                {one.library}
                {one.stack[0] && <div class="quiet">{frameText(one.stack[0])}</div>}
              </th>
              <td>{one.memory}</td>
              <td class="numeric">{count(one.count)}</td>
              <BytesCell n={one.bytes} />
              <BytesCell n={one.peak_bytes} />
              <BytesCell n={one.end_bytes} />
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">Besides PyTorch's allocator. CUDA contexts and kernels are not included.</p>
    </Card>
  );
}
