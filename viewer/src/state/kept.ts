// Signals that the page keeps in its address, so that a view can be bookmarked and sent. Whoever makes one says how it is
// written there; address.ts reads and writes all of them.

import { effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';

/** How a value is written in the address. */
export interface AddressForm<T> {
  /** The value of a text; undefined where the text is no such value. */
  read(text: string): T | undefined;
  write(value: T): string;
}

/** A signal that is kept in the address. */
interface Field {
  key: string;
  /** Whether the value belongs to the shown device: it is forgotten when another is chosen. */
  ofDevice: boolean;
  read(text: string | null): void;
  /** The text for the address; null where the signal has its default value. */
  written(): string | null;
}

const fields: Field[] = [];

/**
 * A signal that stands in the address as `key=...`. Its default is `otherwise`, which is not written.
 */
export const kept = <T, O extends T | null>(key: string, form: AddressForm<T>, otherwise: O, ofDevice = false): Signal<T | O> =>
  keptOr(key, form, signal(otherwise), ofDevice);

/** As `kept`, with a default that may change: a value that nobody chose, neither here nor in the address, follows it. */
export function keptOr<T, O extends T | null>(
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

/** A kept signal that belongs to the shown device: it gets its default again when another device is chosen. */
export const keptOfDevice = <T, O extends T | null>(key: string, form: AddressForm<T>, otherwise: O) =>
  kept(key, form, otherwise, true);

/** Gives all signals that belong to a device their defaults. */
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

/** Two of them, written as `1.0`. */
export const twoWholeNumbers: AddressForm<[number, number]> = {
  read(text) {
    const [first, second] = text.split('.').map(wholeNumber.read);
    return first === undefined || second === undefined ? undefined : [first, second];
  },
  write: (pair) => pair.join('.'),
};

/** Two numbers that rise, written as `from~to` with each end rounded by `rounded`. */
export const interval = (rounded: (end: number) => number): AddressForm<[number, number]> => ({
  read(text) {
    const [from, to] = text.split('~').map(number);
    return from !== undefined && to !== undefined && from < to ? [from, to] : undefined;
  },
  write: (ends) => ends.map(rounded).join('~'),
});

/** One of some words. */
export const oneOf = <T extends string>(all: readonly T[]): AddressForm<T> => ({
  read: (text) => all.find((one) => one === text),
  write: String,
});

export const anyText: AddressForm<string> = { read: (text) => text, write: String };

/** False where the address says `word`, true where it says anything else. */
export const unless = (word: string): AddressForm<boolean> => ({ read: (text) => text !== word, write: () => word });

/** True where the address has it, as `1`. */
export const flag: AddressForm<boolean> = { read: (text) => text === '1', write: () => '1' };
