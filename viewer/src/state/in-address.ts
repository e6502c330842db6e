// Signals that are stored in the page's address, so that a view can be bookmarked and shared. Each defines its form in the address;
// address.ts reads and writes them.

import { effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';

/** The form of a value in the address. */
export interface AddressForm<T> {
  /** Parses a text; undefined if it is not a valid value. */
  read(text: string): T | undefined;
  write(value: T): string;
}

/** A signal stored in the address. */
interface Field {
  key: string;
  /** Whether the value belongs to the shown device: choosing another device resets it. */
  ofDevice: boolean;
  read(text: string | null): void;
  /** Returns the text for the address; null for the default value. */
  written(): string | null;
}

const fields: Field[] = [];

/** A signal stored in the address as `key=...`. Its default is `otherwise`, which is not written. */
export const inAddress = <T, O extends T | null>(
  key: string,
  form: AddressForm<T>,
  otherwise: O,
  ofDevice = false,
): Signal<T | O> => inAddressOr(key, form, signal(otherwise), ofDevice);

/** Like `inAddress`, with a default that may change: a value that was not chosen, here or in the address, follows it. */
export function inAddressOr<T, O extends T | null>(
  key: string,
  form: AddressForm<T>,
  otherwise: ReadonlySignal<O>,
  ofDevice = false,
): Signal<T | O> {
  const held = signal<T | O>(otherwise.value);
  let last: O = otherwise.value;
  let isNamed = false;
  effect(() => {
    const next = otherwise.value;
    if (!isNamed && held.peek() === last) held.value = next;
    last = next;
  });
  fields.push({
    key,
    ofDevice,
    read(text) {
      const named = text === null ? undefined : form.read(text);
      isNamed = named !== undefined;
      held.value = named ?? otherwise.value;
    },
    written: () => (held.value === otherwise.value ? null : form.write(held.value as T)),
  });
  return held;
}

/** Such a signal of the shown device: choosing another device resets it. */
export const inAddressOfDevice = <T, O extends T | null>(key: string, form: AddressForm<T>, otherwise: O) =>
  inAddress(key, form, otherwise, true);

/** Resets all signals that belong to a device. */
export function forgetDevice(): void {
  for (const field of fields) if (field.ofDevice) field.read(null);
}

/** Reads every such signal from an address. */
export function readAll(address: string): void {
  const parameters = new URLSearchParams(address);
  for (const field of fields) field.read(parameters.get(field.key));
}

/** Returns the address of the current values. */
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

/** A number above 0. */
export const decimal: AddressForm<number> = {
  read(text) {
    const n = number(text);
    return n === undefined || n === 0 ? undefined : n;
  },
  write: String,
};

/** A whole number from 0; fractions are cut off. */
export const wholeNumber: AddressForm<number> = {
  read(text) {
    const n = number(text);
    return n === undefined ? undefined : Math.floor(n);
  },
  write: String,
};

/** Two whole numbers, written as `1.0`. */
export const twoWholeNumbers: AddressForm<[number, number]> = {
  read(text) {
    const [first, second] = text.split('.').map(wholeNumber.read);
    return first === undefined || second === undefined ? undefined : [first, second];
  },
  write: (pair) => pair.join('.'),
};

/** Two ascending numbers, written as `from~to`, with each end rounded by `rounded`. */
export const interval = (rounded: (end: number) => number): AddressForm<[number, number]> => ({
  read(text) {
    const [from, to] = text.split('~').map(number);
    return from !== undefined && to !== undefined && from < to ? [from, to] : undefined;
  },
  write: (ends) => ends.map(rounded).join('~'),
});

/** One of a list of words. */
export const oneOf = <T extends string>(all: readonly T[]): AddressForm<T> => ({
  read: (text) => all.find((one) => one === text),
  write: String,
});

export const anyText: AddressForm<string> = { read: (text) => text, write: String };

/** False if the address has `word`, true for anything else. */
export const unless = (word: string): AddressForm<boolean> => ({ read: (text) => text !== word, write: () => word });

/** True if the address has `1`. */
export const flag: AddressForm<boolean> = { read: (text) => text === '1', write: () => '1' };
