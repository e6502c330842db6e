// Answers of the source as signals.

import { computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import { ofCurrent, scope, trouble } from '../state';
import { reason } from '../text/reason';

/**
 * The answer to what `question` asks now, asked again when a signal in it changes. The former answer stays until the
 * next comes, unless it is of another recording; null where there is no question. An answer that comes after the next
 * question is dropped.
 */
export function asked<T>(question: () => Promise<T> | null): ReadonlySignal<T | null> {
  const last = signal<{ scope: string; answer: T } | null>(null);
  let newest = 0;
  effect(() => {
    const number = (newest += 1);
    const of = scope.value;
    const promise = question();
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

/** What a signal holds once it has held it for so long: for what can wait while the hand moves. */
export function rested<T>(of: ReadonlySignal<T>, milliseconds: number): ReadonlySignal<T> {
  const still = signal(of.peek());
  effect(() => {
    const value = of.value;
    const timer = setTimeout(() => (still.value = value), milliseconds);
    return () => clearTimeout(timer);
  });
  return still;
}

/** For answers that are long in the making: they are asked for once a device, unless that fails. */
export function once<T>(ask: (file: number, device: number) => Promise<T>): (file: number, device: number) => Promise<T> {
  const known = new Map<string, Promise<T>>();
  return (file, device) => {
    const key = `${file}.${device}`;
    const before = known.get(key);
    if (before) return before;
    const answer = ask(file, device);
    known.set(key, answer);
    answer.catch(() => known.delete(key));
    return answer;
  };
}
