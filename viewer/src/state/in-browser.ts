// Settings that the browser keeps for all pages of vramscope, unlike the address, which is about one recording.

import { effect, signal, type Signal } from '@preact/signals';

/** Returns a stored value. A page opened from a file, or in private browsing, may have no storage. */
function load(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}

/** A signal that is stored under a name. `read` returns undefined for an invalid stored value. */
export function inBrowser<T>(name: string, read: (value: unknown) => T | undefined, initial: T): Signal<T> {
  const key = `vramscope.${name}`;
  const value = signal<T>(read(load(key)) ?? initial);
  let isFirst = true;
  effect(() => {
    const text = JSON.stringify(value.value);
    if (isFirst) return void (isFirst = false);
    try {
      localStorage.setItem(key, text);
    } catch {
      // Without storage the setting is lost when the page closes.
    }
  });
  return value;
}

export const isText = (value: unknown): value is string => typeof value === 'string';
