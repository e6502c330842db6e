// The other recording in the comparison of two, and what of both is compared.

import { computed } from '@preact/signals';
import { kept, keptOfDevice, oneOf, wholeNumber, twoWholeNumbers, type AddressForm } from './kept';

/** The file and the device that the shown one is compared with, as positions; null: the first other one. */
export const other = kept('other', twoWholeNumbers, null);
/** The moment of that recording; null: its peak of allocated bytes. */
export const otherMoment = keptOfDevice('othermoment', wholeNumber, null);

/** How groups are compared: each where it holds most in the part that is compared, or all at one moment of each recording. */
export const WAYS = ['highest', 'moments'] as const;
export type Way = (typeof WAYS)[number];
export const chosenWay = kept('way', oneOf(WAYS), null);
export const way = computed<Way>(() => chosenWay.value ?? (otherMoment.value === null ? 'highest' : 'moments'));

/** A step of each recording, or a run of a region of each. */
export interface Part {
  /** The name of the region; empty for steps. */
  region: string;
  /** Which of them, from 1, in the first recording and in the second. */
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

/** The part of both recordings in which each group is looked at where it holds most; null: all of both. */
export const part = kept('part', partForm, null);
