// All devices of the shown file as small timelines; a click shows a device.

import { useAnswer } from '../parts/answer';
import type { Device } from '../source/source';
import { choose } from '../state/choice';
import { firstFailure } from '../state/files';
import { device as shown, file } from '../state/place';
import { recording, source } from '../state/recordings';
import { bytes, deviceName } from '../text/units';

/** Pixel columns of a small timeline, independent of the width of its button. */
const COLUMNS = 120;

/** A device's allocated bytes, scaled to `high`; a line marks its first out of memory. */
function Curve({ position, device, high }: { position: number; device: Device; high: number }) {
  const end = device.events + 1;
  const { value } = useAnswer(`${file.value}.${position}`, 'curve', (unwanted) =>
    source.picture(
      file.value,
      position,
      {
        stacked: 'allocated',
        axis: 'events',
        from: 0,
        to: end,
        width: COLUMNS,
        height: 1,
        low: 0,
        high,
        fit_reserved: false,
        only: null,
      },
      unwanted,
    ),
  );
  const failure = firstFailure(device);
  const line = value && Array.from(value.highest.allocated, (n, x) => `V${100 - (n / high) * 100}H${x + 1}`).join('');
  return (
    <svg viewBox={`0 0 ${COLUMNS} 100`} preserveAspectRatio="none" aria-hidden="true">
      {line && <path d={`M0,100${line}V100Z`} />}
      {failure && <rect class="device-failure" x={((failure.event + 1) / end) * COLUMNS - 1} width={2} height={100} />}
    </svg>
  );
}

export function Devices() {
  const devices = recording.value?.devices ?? [];
  if (devices.length < 2) return null;
  const high = devices.reduce((highest, { peaks }) => Math.max(highest, peaks.allocated.bytes), 1);
  return (
    <div class="devices" role="group" aria-label="Devices">
      {devices.map((device, i) => (
        <button
          key={`${file.value}.${i}`}
          type="button"
          class="device"
          aria-pressed={i === shown.value}
          onClick={() => choose(file.value, i)}
        >
          <span class="device-name">{deviceName(device.device)}</span>{' '}
          <span class="quiet">{bytes(device.peaks.allocated.bytes)} peak</span>
          {firstFailure(device) && <span class="device-trouble"> out of memory</span>}
          <Curve position={i} device={device} high={high} />
        </button>
      ))}
    </div>
  );
}
