// Bytes as text that stands in a page: the characters of ASCII without the three that HTML would change or read as its own (NUL,
// carriage return and "<"). Two of these 125 letters say 13 bits, or 14 where there are pairs enough; a last one alone says six.

/** How many letters there are. */
const LETTERS = 125;

/** A pair says 14 bits where the lower 13 of them are below this, which are as many as there are pairs beyond 2^13. */
const LONG = LETTERS * LETTERS - (1 << 13);

/** The place of a letter among them. */
const numberOf = (code: number) => code - 1 - Number(code > 13) - Number(code > 60);

/** The bytes of a text (crates/vramscope-viewer/src/letters.rs writes it). */
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
