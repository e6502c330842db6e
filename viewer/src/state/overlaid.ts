// The steps that the steps view draws over each other.

import { signal } from '@preact/signals';
import { inAddressOfDevice, oneOf, wholeNumber, type AddressForm } from './in-address';
import { PHASES } from '../source/source';

/** A step, by the position of its file and of the file's device; steps are numbered from 0. */
export interface OverlaidStep {
  file: number;
  device: number;
  step: number;
}

/** The most steps drawn over each other, so that their colors differ. */
export const MOST_STEPS = 8;

/** Written as `0.0.3-1.0.3`. */
const form: AddressForm<readonly OverlaidStep[]> = {
  read(text) {
    const all = text.split('-').map((one) => one.split('.').map(wholeNumber.read));
    const known = all.flatMap(([file, device, step]) =>
      file === undefined || device === undefined || step === undefined ? [] : [{ file, device, step }],
    );
    return known.length === all.length ? known.slice(0, MOST_STEPS) : undefined;
  },
  write: (all) => all.map(({ file, device, step }) => `${file}.${device}.${step}`).join('-'),
};

/** The drawn steps; null: the first, the typical, the highest and the first unusual step of the shown device. */
export const overlaid = inAddressOfDevice('steps', form, null);

/** The event at which steps are aligned: the start of the step, or of its first phase of this kind. */
export const ALIGNMENTS = ['step', ...PHASES] as const;
export type Alignment = (typeof ALIGNMENTS)[number];
export const alignment = inAddressOfDevice('align', oneOf(ALIGNMENTS), 'step');

/** The position, among the drawn steps, of the step that the others are compared with; null: the typical step. */
export const referenceStep = inAddressOfDevice('reference', wholeNumber, null);

/** The file whose steps are about to be added: a rank's recording is then read. Null: the shown file. */
export const toOverlay = signal<number | null>(null);
