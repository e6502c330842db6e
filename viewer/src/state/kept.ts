// Signals that the page keeps in its address, so that a view can be bookmarked and sent. Whoever makes one says how it is
// written there; address.ts reads and writes all of them.

import { signal, type Signal } from '@preact/signals';

/** How a value is written in the address. */
export interface Form<T> {
  /** Undefined where the text makes no sense. */
  read(text: string): T | undefined;
  write(value: T): string;
}

/** A kept signal, whatever it holds. */
interface Field {
  key: string;
  /** Of one device: it means nothing once another is chosen. */
  ofDevice: boolean;
  read(text: string | null): void;
  /** Null: it holds what it holds when the address says nothing. */
  written(): string | null;
}

const fields: Field[] = [];

/**
 * A signal that stands in the address as `key=...`. It is `otherwise` where the address does not name it, and is not
 * written there while it is that.
 */
export function kept<T, O extends T | null>(key: string, form: Form<T>, otherwise: O, ofDevice = false): Signal<T | O> {
  const held = signal<T | O>(otherwise);
  fields.push({
    key,
    ofDevice,
    read: (text) => (held.value = (text === null ? undefined : form.read(text)) ?? otherwise),
    written: () => (held.value === otherwise ? null : form.write(held.value as T)),
  });
  return held;
}

/** The same for what belongs to the chosen device: it is forgotten when another device is chosen. */
export const keptOfDevice = <T, O extends T | null>(key: string, form: Form<T>, otherwise: O) => kept(key, form, otherwise, true);

export function forgetDevice(): void {
  for (const field of fields) if (field.ofDevice) field.read(null);
}

/** Takes every kept signal from an address. */
export function readAll(address: string): void {
  const parameters = new URLSearchParams(address);
  for (const field of fields) field.read(parameters.get(field.key));
}

/** The address of what every kept signal holds now. */
export function writtenAll(): string {
  const parameters = new URLSearchParams();
  for (const field of fields) {
    const text = field.written();
    if (text !== null) parameters.set(field.key, text);
  }
  return parameters.toString();
}

const number = (text: string): number | undefined => (/^\d+(\.\d+)?$/.test(text) ? finite(Number(text)) : undefined);
const finite = (n: number) => (Number.isFinite(n) ? n : undefined);

/** Whole numbers from 0. */
export const position: Form<number> = {
  read(text) {
    const n = number(text);
    return n === undefined ? undefined : Math.floor(n);
  },
  write: String,
};

/** `file.device`. */
export const positions: Form<[number, number]> = {
  read(text) {
    const [first, second] = text.split('.').map(position.read);
    return first === undefined || second === undefined ? undefined : [first, second];
  },
  write: (pair) => pair.join('.'),
};

/** `from~to`, each end rounded for the address. */
export const span = (rounded: (end: number) => number): Form<[number, number]> => ({
  read(text) {
    const [from, to] = text.split('~').map(number);
    return from !== undefined && to !== undefined && from < to ? [from, to] : undefined;
  },
  write: (ends) => ends.map(rounded).join('~'),
});

export const oneOf = <T extends string>(all: readonly T[]): Form<T> => ({
  read: (text) => all.find((one) => one === text),
  write: String,
});

export const anyText: Form<string> = { read: (text) => text, write: String };

/** True, but where the address says `word`. */
export const unless = (word: string): Form<boolean> => ({ read: (text) => text !== word, write: () => word });
