// Decompresses the output of `xz --format=lzma`. It is a sixth smaller than deflate for the engine, the largest part of a self-contained
// page. The LZMA SDK describes the format and defines these names.

/** Bytes before the compressed data: a byte of properties, the dictionary size, and the total size, if known. */
const HEADER = 13;
/** Probabilities are fractions of ONE, start at HALF, and move by a part of 1 in 2^MOVE. */
const [ONE, HALF, MOVE] = [1 << 11, 1 << 10, 5];

/** The numbers of states, and of match length probabilities. */
const STATES = 12;
const LENGTHS = 18 + (1 << 8);

/**
 * Decompresses data made by `viewer/engine.sh`, with `lp=0,pb=0` and an end marker. Throws if the properties differ or the data is
 * incomplete.
 */
export function unpackedOf(packed: Uint8Array): Uint8Array<ArrayBuffer> {
  const lc = packed[0]!;
  if (lc > 8) throw new Error('the packed data has other properties than lp=0,pb=0');
  let out = new Uint8Array(packed.length * 4);
  let size = 0;

  // Start of each kind of probability in the one table.
  let entries = 0;
  const table = (length: number) => (entries += length) - length;
  const isMatch = table(STATES);
  const isRep = table(STATES);
  const isRep0 = table(STATES);
  const isRep0Long = table(STATES);
  const isRep1 = table(STATES);
  const isRep2 = table(STATES);
  const slots = table(4 << 6);
  const special = table(128);
  const align = table(1 << 4);
  const matchLength = table(LENGTHS);
  const repLength = table(LENGTHS);
  const literals = table(0x300 << lc);
  const probabilities = new Uint16Array(entries).fill(HALF);

  let at = HEADER + 1;
  let code = 0;
  let range = 0xffffffff;
  const next = () => packed[at++] ?? 0;
  for (let i = 0; i < 4; i += 1) code = ((code << 8) | next()) >>> 0;

  const bit = (entry: number): number => {
    const probability = probabilities[entry]!;
    const bound = (range >>> 11) * probability;
    let is = 0;
    if (code < bound) {
      range = bound;
      probabilities[entry] = probability + ((ONE - probability) >> MOVE);
    } else {
      is = 1;
      range -= bound;
      code -= bound;
      probabilities[entry] = probability - (probability >> MOVE);
    }
    if (range < 0x1000000) {
      range = (range << 8) >>> 0;
      code = ((code << 8) | next()) >>> 0;
    }
    return is;
  };
  const even = (bits: number): number => {
    let value = 0;
    for (let i = 0; i < bits; i += 1) {
      range >>>= 1;
      const is = code >= range ? 1 : 0;
      if (is) code -= range;
      value = (value << 1) | is;
      if (range < 0x1000000) {
        range = (range << 8) >>> 0;
        code = ((code << 8) | next()) >>> 0;
      }
    }
    return value;
  };
  const tree = (begin: number, bits: number): number => {
    let node = 1;
    for (let i = 0; i < bits; i += 1) node = (node << 1) | bit(begin + node);
    return node - (1 << bits);
  };
  const reverse = (begin: number, bits: number): number => {
    let [node, value] = [1, 0];
    for (let i = 0; i < bits; i += 1) {
      const is = bit(begin + node);
      node = (node << 1) | is;
      value |= is << i;
    }
    return value;
  };
  // Short, medium or long, then the length.
  const length = (begin: number): number => {
    if (!bit(begin)) return 2 + tree(begin + 1, 3);
    if (!bit(begin + 1 + 8)) return 10 + tree(begin + 10, 3);
    return 18 + tree(begin + 18, 8);
  };
  const put = (byte: number): void => {
    if (size === out.length) {
      const larger = new Uint8Array(size * 2);
      larger.set(out);
      out = larger;
    }
    out[size++] = byte;
  };

  let state = 0;
  let [rep0, rep1, rep2, rep3] = [0, 0, 0, 0];
  for (;;) {
    if (at > packed.length) throw new Error('the packed data ends too early');
    if (!bit(isMatch + state)) {
      const before = size > 0 ? out[size - 1]! : 0;
      const begin = literals + 0x300 * (before >> (8 - lc));
      let node = 1;
      if (state >= 7) {
        let match = out[size - rep0 - 1]!;
        do {
          const expected = (match >> 7) & 1;
          match <<= 1;
          const is = bit(begin + ((1 + expected) << 8) + node);
          node = (node << 1) | is;
          if (is !== expected) break;
        } while (node < 0x100);
      }
      while (node < 0x100) node = (node << 1) | bit(begin + node);
      put(node & 0xff);
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let many: number;
    if (bit(isRep + state)) {
      if (!bit(isRep0 + state)) {
        if (!bit(isRep0Long + state)) {
          state = state < 7 ? 9 : 11;
          put(out[size - rep0 - 1]!);
          continue;
        }
      } else {
        let distance: number;
        if (!bit(isRep1 + state)) distance = rep1;
        else {
          if (!bit(isRep2 + state)) distance = rep2;
          else [distance, rep3] = [rep3, rep2];
          rep2 = rep1;
        }
        rep1 = rep0;
        rep0 = distance;
      }
      many = length(repLength);
      state = state < 7 ? 8 : 11;
    } else {
      [rep3, rep2, rep1] = [rep2, rep1, rep0];
      many = length(matchLength);
      state = state < 7 ? 7 : 10;
      const slot = tree(slots + (Math.min(many - 2, 3) << 6), 6);
      const bits = (slot >> 1) - 1;
      if (slot < 4) rep0 = slot;
      else {
        const high = (2 | (slot & 1)) << bits;
        if (slot < 14) rep0 = high + reverse(special + high - slot, bits);
        else rep0 = (high | (even(bits - 4) << 4)) + reverse(align, 4);
      }
      if (rep0 === -1) return out.slice(0, size);
    }
    if (rep0 < 0 || rep0 >= size) throw new Error('the packed data refers to missing bytes');
    for (let i = 0; i < many; i += 1) put(out[size - rep0 - 1]!);
  }
}
