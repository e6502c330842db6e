// Answers of the source as signals.

import { effect, signal, type ReadonlySignal } from '@preact/signals';
import { trouble } from '../state';
import { reason } from '../text/reason';

/**
 * The answer to what `question` asks now, asked again when a signal in it changes. The former answer stays until the
 * next comes; null where there is no question. An answer that comes after the next question is dropped.
 */
export function asked<T>(question: () => Promise<T> | null): ReadonlySignal<T | null> {
  const value = signal<T | null>(null);
  let newest = 0;
  effect(() => {
    const number = (newest += 1);
    const promise = question();
    if (!promise) {
      value.value = null;
      return;
    }
    promise.then(
      (answer) => {
        if (number === newest) value.value = answer;
      },
      (e: unknown) => {
        if (number !== newest) return;
        value.value = null;
        trouble.value = reason(e);
      },
    );
  });
  return value;
}
