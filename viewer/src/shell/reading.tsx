import { useEffect, useState } from 'preact/hooks';
import { count } from '../text/units';

/** A message while recordings are read, with a bar and the elapsed time. The reader does not know how much is left. */
export function Reading({ what }: { what: string }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="page-note reading">
      <p role="status">{what}</p>
      <progress aria-label="Reading" />
      <p role="timer">{seconds > 0 ? `${count(seconds)} s` : ''}</p>
    </div>
  );
}
