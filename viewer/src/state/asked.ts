// Answers as signals. A question is asked again when a signal that it reads changes.

import { computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { reason } from '../text/reason';
import { scope } from './place';
import { ofCurrent } from './recordings';
import { trouble } from './trouble';

/**
 * Returns the answer to `question`, which is asked again whenever a signal that it reads changes. Until the new answer arrives the old one
 * stays, unless it belongs to another recording. Null if `question` returns null. The abort signal passed to `question` fires when a newer
 * question is asked.
 */
export function asked<T>(question: (unwanted: AbortSignal) => Promise<T> | null): ReadonlySignal<T | null> {
  const last = signal<{ scope: string; answer: T } | null>(null);
  let newest = 0;
  let under = new AbortController();
  effect(() => {
    const number = (newest += 1);
    const of = scope.value;
    under.abort();
    under = new AbortController();
    const promise = question(under.signal);
    if (!promise) {
      last.value = null;
      return;
    }
    promise.then(
      (answer) => {
        if (number === newest) last.value = { scope: of, answer };
      },
      (e: unknown) => {
        if (number !== newest) return;
        last.value = null;
        trouble.value = reason(e);
      },
    );
  });
  const here = ofCurrent(last);
  return computed(() => here.value?.answer ?? null);
}

/** Returns a signal's value after it has not changed for this long: for content that need not follow the pointer. */
export function rested<T>(of: ReadonlySignal<T>, milliseconds: number): ReadonlySignal<T> {
  const still = signal(of.peek());
  effect(() => {
    const value = of.value;
    const timer = setTimeout(() => (still.value = value), milliseconds);
    return () => clearTimeout(timer);
  });
  return still;
}

/**
 * Caches answers that take long, such as a report: each device is asked once. A question that failed or was aborted is forgotten and
 * asked again.
 */
export function once<T>(
  ask: (file: number, device: number, unwanted: AbortSignal) => Promise<T>,
): (file: number, device: number, unwanted: AbortSignal) => Promise<T> {
  const remembered = onceEach((file, device, _: null, unwanted) => ask(file, device, unwanted));
  return (file, device, unwanted) => remembered(file, device, null, unwanted);
}

/** The most cached answers; each may be large. */
const MOST_KEPT = 16;

/** Like `once`, for questions with more parameters than a device. The oldest answers are dropped. */
export function onceEach<Q, T>(
  ask: (file: number, device: number, query: Q, unwanted: AbortSignal) => Promise<T>,
): (file: number, device: number, query: Q, unwanted: AbortSignal) => Promise<T> {
  const known = new Map<string, { answer: Promise<T>; end: AbortController; waiting: number }>();
  return (file, device, query, unwanted) => {
    const key = `${file}.${device} ${JSON.stringify(query)}`;
    let one = known.get(key);
    if (!one) {
      const end = new AbortController();
      const asked = { answer: ask(file, device, query, end.signal), end, waiting: 0 };
      const forget = () => {
        if (known.get(key) === asked) known.delete(key);
      };
      asked.answer.then(() => (asked.waiting = Infinity), forget);
      end.signal.addEventListener('abort', forget);
      known.set(key, (one = asked));
      const answered = [...known].filter(([, { waiting }]) => waiting === Infinity);
      for (const [old] of answered.slice(0, Math.max(known.size - MOST_KEPT, 0))) known.delete(old);
    }
    const waitedFor = one;
    waitedFor.waiting += 1;
    unwanted.addEventListener('abort', () => {
      waitedFor.waiting -= 1;
      if (waitedFor.waiting === 0) waitedFor.end.abort();
    });
    return waitedFor.answer;
  };
}
