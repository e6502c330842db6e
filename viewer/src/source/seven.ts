// Bytes as text that stands in a page: seven bits a character, all of ASCII. The three that HTML would change or read as its own (NUL,
// carriage return and "<"), and the one that says that such a one follows, take two. Base64 would be a seventh longer.

/** Stands in front of a character that may not stand in a page, which is then written with one bit changed. */
const ESCAPE = 0x7f;
const CHANGED = 0x40;

/** The bytes of a text (crates/vramscope-viewer/src/seven.rs writes it). */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array((text.length * 7) >> 3);
  let [bits, held, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 1) {
    let character = text.charCodeAt(i);
    if (character === ESCAPE) {
      i += 1;
      character = text.charCodeAt(i) ^ CHANGED;
    }
    bits = ((bits << 7) | character) & 0x7fff;
    held += 7;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = bits >> held;
  }
  return bytes.slice(0, at);
}
