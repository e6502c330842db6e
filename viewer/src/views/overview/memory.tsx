// The four kinds of bytes: at the start, at their peaks and at the end.

import { KINDS, type Device } from '../../source/source';
import { bytes, count, duration } from '../../text/units';
import { Card, ViewLink, counted, exactBytes } from './card';

export function MemoryCard({ device }: { device: Device }) {
  return (
    <Card title="Memory">
      <table class="numbers">
        <thead>
          <tr>
            <th scope="col">Bytes</th>
            <th scope="col" class="numeric">
              At the start
            </th>
            <th scope="col" class="numeric">
              Peak
            </th>
            <th scope="col">Reached</th>
            <th scope="col" class="numeric">
              At the end
            </th>
          </tr>
        </thead>
        <tbody>
          {KINDS.map((kind) => {
            const peak = device.peaks[kind];
            return (
              <tr key={kind}>
                <th scope="row">
                  <span class={`kind-dot ink-${kind}`} />
                  {kind}
                </th>
                <td class="numeric" title={exactBytes(device.start[kind])}>
                  {bytes(device.start[kind])}
                </td>
                <td class="numeric" data-peak={kind} data-bytes={peak.bytes} title={exactBytes(peak.bytes)}>
                  <b>{bytes(peak.bytes)}</b>
                </td>
                <td>
                  {device.events === 0 ? (
                    ''
                  ) : (
                    <ViewLink to="moment" moment={peak.moment}>
                      moment {count(peak.moment)}
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
    </Card>
  );
}
