import { useEffect, useState } from 'preact/hooks';
import type { Progress } from '../source/engine';
import { bytes, count } from '../text/units';

/** Formats `run.pickle: 12.00 MiB of 1.20 GiB read`. */
export const progressText = ({ name, bytes: read, total }: Progress) =>
  `${name}: ${bytes(read)}${total === null ? '' : ` of ${bytes(total)}`} read`;

/** A message while recordings are read, with a bar and the elapsed time. Without a total, the bar is indeterminate. */
export function Reading({ what, progress = null }: { what: string; progress?: Progress | null }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const total = progress?.total ?? null;
  return (
    <div class="page-note reading">
      <p role="status">{what}</p>
      <progress
        aria-label="Reading"
        {...(progress && total !== null ? { value: progress.bytes, max: Math.max(total, 1) } : {})}
      />
      <p class="reading-bytes">{progress ? progressText(progress) : ''}</p>
      <p role="timer">{seconds > 0 ? `${count(seconds)} s` : ''}</p>
    </div>
  );
}
