// Queries the source from a component.

import { useEffect, useReducer, useRef } from 'preact/hooks';
import { newest, type Newest } from '../source/newest';
import { reason } from '../text/reason';

export interface Answer<T> {
  /** The newest answer; it may belong to an older key while the next request runs. */
  value: T | null;
  pending: boolean;
  error: string | null;
}

interface Question<T> {
  scope: string;
  key: string;
  ask: (unwanted: AbortSignal) => Promise<T>;
}

interface Last<T> {
  scope: string;
  key: string;
  value: T | null;
  error: string | null;
}

/**
 * Requests whenever `key` changes while the component is rendered: one request at a time, then the newest. Until an answer arrives, the
 * former one stays, unless it belongs to another `scope` (another recording). Without `ask` nothing is requested.
 */
export function useAnswer<T>(scope: string, key: string, ask: ((unwanted: AbortSignal) => Promise<T>) | null): Answer<T> {
  const [, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  const last = useRef<Last<T> | null>(null);
  const queue = useRef<Newest<Question<T>> | null>(null);
  const asked = useRef<string | null>(null);
  const keep = ({ scope, key }: Question<T>, value: T | null, error: string | null) => {
    last.current = { scope, key, value, error };
    redraw(null);
  };
  queue.current ??= newest<Question<T>, T>(
    (question, unwanted) => question.ask(unwanted),
    (value, question) => keep(question, value, null),
    (error, question) => keep(question, null, reason(error)),
  );
  useEffect(() => () => queue.current?.stop(), []);

  const question = ask && `${scope} ${key}`;
  if (ask && asked.current !== question) queue.current.want({ scope, key, ask });
  asked.current = question;

  const shown = last.current?.scope === scope ? last.current : null;
  return {
    value: shown?.value ?? null,
    pending: ask !== null && shown?.key !== key,
    error: shown?.key === key ? shown.error : null,
  };
}
