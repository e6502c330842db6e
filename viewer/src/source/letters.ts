// Encodes bytes as text for HTML: the ASCII characters without the three that HTML changes or interprets (NUL, carriage return, "<").
// A pair of these 125 letters encodes 13 bits, or 14 for low values; a single last letter encodes six.

/** The number of letters. */
const LETTERS = 125;

/** A pair encodes 14 bits if the lower 13 are below this: the number of pairs beyond 2^13. */
const LONG = LETTERS * LETTERS - (1 << 13);

/** Returns the index of a letter. */
const numberOf = (code: number) => code - 1 - Number(code > 13) - Number(code > 60);

/** Decodes a text written by crates/vramscope-viewer/src/letters.rs. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  let [bits, held, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 2) {
    const alone = i + 1 === text.length;
    const value = numberOf(text.charCodeAt(i)) + (alone ? 0 : LETTERS * numberOf(text.charCodeAt(i + 1)));
    bits |= value << held;
    held += alone ? 6 : (value & 0x1fff) < LONG ? 14 : 13;
    for (; held >= 8; held -= 8) {
      bytes[at++] = bits;
      bits >>= 8;
    }
  }
  return bytes.slice(0, at);
}
