// Chooses the shown file and device, and closes files.

import { choose, closeShown } from '../state/choice';
import { device, file } from '../state/place';
import { current, recording, recordings } from '../state/recordings';
import { endOf } from '../text/labels';
import { baseName, shortPaths } from '../text/path';
import { bytes, deviceName } from '../text/units';

/** The most characters of a name in a list, which cuts longer names at the end. */
const LONGEST = 34;

export function Chooser() {
  const all = recordings.value;
  if (!all || !recording.value) return null;
  const names = shortPaths(all.map((one) => one?.name ?? ''));
  return (
    <div class="chooser">
      <label>
        <span class="visually-hidden">File</span>
        <select
          class="file-select"
          title={recording.value.name}
          value={file.value}
          onChange={(e) => choose(Number(e.currentTarget.value), null)}
        >
          {all.map(
            (one, i) =>
              one && (
                <option key={i} value={i}>
                  {endOf(names[i] ?? '', LONGEST)}
                </option>
              ),
          )}
        </select>
      </label>
      {current.value && (
        <label>
          <span class="visually-hidden">Device</span>
          <select value={device.value} onChange={(e) => choose(file.value, Number(e.currentTarget.value))}>
            {recording.value.devices.map((one, i) => (
              <option key={i} value={i}>{`${deviceName(one.device)}: ${bytes(one.peaks.allocated.bytes)} peak`}</option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

export function CloseButton() {
  if (!recording.value) return null;
  return (
    <button
      type="button"
      class="button"
      aria-label={`Close ${baseName(recording.value.name)}`}
      title="Close this file and free its memory"
      // The second click of a double click would close the next file.
      onClick={(e) => e.detail < 2 && void closeShown()}
    >
      Close
    </button>
  );
}
