// The unused part of reserved memory, at the peak and at the end.

import type { Fragmentation, ReportDevice } from '../../source/generated/report';
import { bytes } from '../../text/units';
import { Card, TableHead, ViewLink, exactBytes } from './card';

type Shown = ReportDevice['fragmentation'] & { hasRequests: boolean };

/** `hasRequests`: as in `MemoryCard`. */
export function FragmentationCard({ at_peak: atPeak, at_end: atEnd, hasRequests }: Shown) {
  if (!atPeak && !atEnd) return null;
  const row = (name: string, of: (f: Fragmentation) => number, title: string) => (
    <tr>
      <th scope="row" title={title}>
        {name}
      </th>
      {[atPeak, atEnd].map((f, i) => (
        <td key={i} class="numeric" title={f ? exactBytes(of(f)) : 'Nothing was allocated then.'}>
          {f ? bytes(of(f)) : '–'}
        </td>
      ))}
    </tr>
  );
  const request = (atPeak ?? atEnd)!.request_bytes;
  return (
    <Card title="Fragmentation">
      <table class="numbers">
        <TableHead columns={{ Bytes: 'words', 'At the peak': 'numeric', 'At the end': 'numeric' }} />
        <tbody>
          {hasRequests && row('lost to rounding', (f) => f.internal_bytes, 'allocated - requested: internal fragmentation')}
          {row('reserved and unused', (f) => f.external_bytes, 'reserved - active')}
          {row('of which whole segments', (f) => f.whole_segments_bytes, 'can be returned to the device at any time')}
          {row('largest free block', (f) => f.largest_free_block?.bytes ?? 0, 'the largest request that needs no new segment')}
          {row(`usable for ${bytes(request)}`, (f) => f.usable_bytes, 'in blocks that could serve one more request of this size')}
        </tbody>
      </table>
      <p class="finding-links">
        <ViewLink to="segments">Show the segments</ViewLink>
      </p>
    </Card>
  );
}
