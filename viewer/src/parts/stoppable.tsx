// Answers that take long, and that the user can stop.

import { useEffect, useRef, useState } from 'preact/hooks';
import { count } from '../text/units';
import { useAnswer } from './answer';
import { Button } from './controls';

/** Like `useAnswer`, for a question that the user can stop. */
export function useStoppable<T>(scope: string, key: string | null, ask: ((unwanted: AbortSignal) => Promise<T>) | null) {
  const [stopped, setStopped] = useState<string | null>(null);
  const ending = useRef(new AbortController());
  const isStopped = stopped !== null && stopped === key;
  const end = ending.current.signal;
  const answer = useAnswer(scope, key ?? '', ask && !isStopped ? (unwanted) => ask(AbortSignal.any([unwanted, end])) : null);
  return {
    answer,
    stopped: isStopped,
    stop: () => {
      ending.current.abort();
      ending.current = new AbortController();
      setStopped(key);
    },
    again: () => setStopped(null),
  };
}

/** The elapsed time of a request, and a button that stops it. */
export function UnderWay({ what, stop }: { what: string; stop: () => void }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="waiting">
      <p role="status">{what}.</p>
      <p role="timer">{seconds > 0 ? `${count(seconds)} s` : ''}</p>
      <Button onClick={stop}>Stop</Button>
    </div>
  );
}

export function Stopped({ again }: { again: () => void }) {
  return (
    <div class="waiting">
      <p role="status">Stopped.</p>
      <Button onClick={again}>Continue</Button>
    </div>
  );
}
