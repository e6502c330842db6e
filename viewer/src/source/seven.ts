// Bytes as text that stands in a page: seven bits a character. The three characters that HTML would change or read as its own (NUL,
// carriage return and "<") are written 256 higher. Base64 would be a seventh longer.

/** How much higher the characters are written that may not stand in a page. */
const RAISED = 256;

/** The bytes of a text (crates/vramscope-viewer/src/seven.rs writes it). */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array((text.length * 7) >> 3);
  let [bits, held, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 1) {
    bits = ((bits << 7) | (text.charCodeAt(i) % RAISED)) & 0x7fff;
    held += 7;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = bits >> held;
  }
  return bytes;
}
