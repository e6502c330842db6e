// Estimates whether a page can read a file before reading it: WebAssembly has 4 GiB, whatever the machine has.

import { bytes } from '../text/units';

const MEMORY = 4 * 2 ** 30;

/** A file type by its first bytes, and the most bytes of memory per byte of the file once every view was opened. */
interface Kind {
  magic: number[];
  factor: number;
  /** The reason for the factor. */
  note: string;
}

/** Measured: a zstd-compressed PyTorch recording needs 28. A log has few bytes per event. */
const KINDS: Kind[] = [
  { magic: [0x28, 0xb5, 0x2f, 0xfd], factor: 28, note: ', because it is compressed' },
  { magic: [0x1f, 0x8b], factor: 28, note: ', because it is compressed' },
  { magic: [...'\x93vramscp'].map((c) => c.charCodeAt(0)), factor: 4, note: '' },
];

/** Other files. Measured on pickles of 7, 14, 21 and 28 million events with 77 bytes each: 1.9 to 2.2. */
const PLAIN = 2.2;

const MOST = Math.max(PLAIN, ...KINDS.map(({ factor }) => factor));

/** Returns why a file may be more than a page can hold, or null. */
export async function tooLarge(file: File): Promise<string | null> {
  if (file.size * MOST <= MEMORY) return null;
  const start = new Uint8Array(await file.slice(0, 8).arrayBuffer());
  const kind = KINDS.find(({ magic }) => magic.every((byte, at) => start[at] === byte));
  const { factor, note } = kind ?? { factor: PLAIN, note: '' };
  if (file.size * factor <= MEMORY) return null;
  const needs = bytes(Math.round(file.size * factor));
  return `It has ${bytes(file.size)} and may need ${needs} of memory${note}; a page can use ${bytes(MEMORY)}.`;
}
