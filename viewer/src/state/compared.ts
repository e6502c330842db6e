// The comparison of two recordings: the other recording, and the compared parts.

import { computed } from '@preact/signals';
import { inAddress, inAddressOfDevice, oneOf, wholeNumber, twoWholeNumbers, type AddressForm } from './in-address';

/** The file and device to compare with, as positions; null: the first other one. */
export const other = inAddress('other', twoWholeNumbers, null);
/** The moment of that recording; null: its peak of allocated bytes. */
export const otherMoment = inAddressOfDevice('othermoment', wholeNumber, null);

/** The ways to compare groups: each at its own peak in the compared part, or all at one moment of each recording. */
export const WAYS = ['highest', 'moments'] as const;
export type Way = (typeof WAYS)[number];
export const chosenWay = inAddress('way', oneOf(WAYS), null);
export const way = computed<Way>(() => chosenWay.value ?? (otherMoment.value === null ? 'highest' : 'moments'));

/** A step of each recording, or a run of a region of each. */
export interface Part {
  /** The name of the region; empty for steps. */
  region: string;
  /** The number of the step or run, from 1, in the first and in the second recording. */
  numbers: readonly [number, number];
}

/** Written as `3.3.forward`; steps have no name. */
const partForm: AddressForm<Part> = {
  read(text) {
    const [, a, b, region] = /^(\d{1,9})\.(\d{1,9})\.(.*)$/s.exec(text) ?? [];
    return region === undefined ? undefined : { region, numbers: [Number(a), Number(b)] };
  },
  write: ({ region, numbers }) => `${numbers.join('.')}.${region}`,
};

/** The part of both recordings in which group peaks are compared; null: all of both. */
export const part = inAddress('part', partForm, null);
