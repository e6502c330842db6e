// The four kinds of bytes: at the start, at their peaks and at the end.

import { momentText } from '../../parts/current';
import { KINDS, type Device } from '../../source/source';
import { bytes, duration } from '../../text/units';
import { BytesCell, Card, TableHead, ViewLink, counted, exactBytes } from './card';

/** `hasRequests`: the recording has requested bytes. Logs of `vramscope run` only have the sizes of blocks. */
export function MemoryCard({ device, hasRequests }: { device: Device; hasRequests: boolean }) {
  return (
    <Card title="Memory">
      <table class="numbers">
        <TableHead
          columns={{ Bytes: 'words', 'At the start': 'numeric', Peak: 'numeric', Reached: 'words', 'At the end': 'numeric' }}
        />
        <tbody>
          {KINDS.filter((kind) => hasRequests || kind !== 'requested').map((kind) => {
            const peak = device.peaks[kind];
            return (
              <tr key={kind}>
                <th scope="row">
                  <span class={`kind-dot ink-${kind}`} />
                  {kind}
                </th>
                <BytesCell n={device.start[kind]} />
                <td class="numeric" data-peak={kind} data-bytes={peak.bytes} title={exactBytes(peak.bytes)}>
                  <b>{bytes(peak.bytes)}</b>
                </td>
                <td>
                  {device.events === 0 ? (
                    ''
                  ) : (
                    <ViewLink to="moment" moment={peak.moment}>
                      {momentText(peak.moment, device)}
                    </ViewLink>
                  )}
                </td>
                <td class="numeric" data-end={kind} data-bytes={device.end[kind]} title={exactBytes(device.end[kind])}>
                  {bytes(device.end[kind])}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="quiet">
        {counted(device.events, 'event')}, {counted(device.allocations, 'allocation')}
        {device.duration_us === null ? '' : `, ${duration(device.duration_us)}`}
        {device.preexisting > 0 ? `; ${counted(device.preexisting, 'block was', 'blocks were')} live before recording began` : ''}
        .
      </p>
      {hasRequests && exceeds(device) && (
        <p class="quiet">
          Requested bytes exceed allocated bytes: they count freed blocks that another stream may still use, as active bytes do.
        </p>
      )}
    </Card>
  );
}

/** Whether requested bytes are above allocated bytes anywhere in the card. */
const exceeds = ({ start, peaks, end }: Device): boolean =>
  start.requested > start.allocated || peaks.requested.bytes > peaks.allocated.bytes || end.requested > end.allocated;
