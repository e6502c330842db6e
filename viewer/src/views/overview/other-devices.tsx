// What was found on devices of the file that are not shown.

import type { Recording } from '../../source/source';
import { choose } from '../../state/open';
import { firstFailure } from '../../state/opened';
import { bytes, deviceName } from '../../text/units';
import { Card } from './card';

export function OtherDevices({ open, file, shown }: { open: Recording; file: number; shown: number }) {
  return open.devices.map((device, i) => {
    const failure = i === shown ? null : firstFailure(device);
    return (
      failure && (
        <Card key={i} title={`${deviceName(device.device)} ran out of memory`} tone="bad">
          <p>
            {bytes(failure.bytes)} asked for.{' '}
            <button type="button" class="link-button" onClick={() => choose(file, i)}>
              Show {deviceName(device.device)}
            </button>
          </p>
        </Card>
      )
    );
  });
}
