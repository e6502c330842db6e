// Memory of the process beside PyTorch's allocator, by the library that took it.

import type { ReportDeviceUse, ReportLibrary } from '../../source/generated/report';
import { bytes, count } from '../../text/units';
import { BytesCell, Card, TableHead, frameText } from './card';

interface Memory {
  libraries: ReportLibrary[] | undefined;
  device_use: ReportDeviceUse | undefined;
}

/** What the driver's count of the device says, in a sentence. */
export function measuredText({ device_use }: Pick<Memory, 'device_use'>): string {
  const here = device_use?.here;
  if (!here) return 'CUDA contexts and kernels are not included.';
  const said = `The driver says that ${bytes(here.used_bytes)} of ${bytes(here.total_bytes)} are in use, by all processes.`;
  if (here.rest_bytes >= 0) return said;
  return `${said} That is ${bytes(-here.rest_bytes)} less than the sum: managed memory counts wherever it is.`;
}

export function LibrariesCard({ libraries, device_use }: Memory) {
  const here = device_use?.here;
  if (!libraries?.length && !here) return null;
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
          {libraries?.map((one) => (
            <tr key={`${one.library} ${one.memory}`}>
              <th scope="row">
                {one.library}
                {one.line && <div class="quiet">{frameText(one.line)}</div>}
              </th>
              <td>{one.memory}</td>
              <td class="numeric">{count(one.count)}</td>
              <BytesCell n={one.bytes} />
              <BytesCell n={one.peak_bytes} />
              <BytesCell n={one.end_bytes} />
            </tr>
          ))}
          {here && (
            <tr>
              <th scope="row">Contexts, kernels and other processes</th>
              <td>measured</td>
              <td />
              <BytesCell n={Math.max(here.rest_bytes, 0)} />
              <td />
              <td />
            </tr>
          )}
        </tbody>
      </table>
      <p class="quiet">Besides PyTorch's allocator. {measuredText({ device_use })}</p>
    </Card>
  );
}
