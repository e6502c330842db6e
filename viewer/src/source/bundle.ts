// The container of every binary answer: a JSON head and named columns.
//
//   u32 length of the head | head, padded to 8 | column, padded to 8 | column ...
//
// The head is {"json": anything, "columns": [[name, "u8" | "u16" | "u32" | "f64", length], ...]}. Little endian, as are
// all machines that run a browser.

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

export interface Bundle<J> {
  json: J;
  columns: Map<string, Column>;
}

const KINDS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array } as const;
type Kind = keyof typeof KINDS;

const padded = (n: number) => (n + 7) & ~7;

/** Views into `buffer`; nothing is copied. */
export function decode<J>(buffer: ArrayBuffer): Bundle<J> {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as {
    json: J;
    columns: [string, Kind, number][];
  };
  let at = padded(4 + length);
  const columns = new Map<string, Column>();
  for (const [name, kind, count] of head.columns) {
    const type = KINDS[kind];
    columns.set(name, new type(buffer, at, count));
    at = padded(at + count * type.BYTES_PER_ELEMENT);
  }
  return { json: head.json, columns };
}

const take = <T extends Column>(type: new (...args: never[]) => T) =>
  (bundle: Bundle<unknown>, name: string): T => {
    const column = bundle.columns.get(name);
    if (!(column instanceof type)) throw new Error(`the answer has no column ${name}`);
    return column;
  };

export const u8 = take(Uint8Array);
export const u16 = take(Uint16Array);
export const u32 = take(Uint32Array);
export const f64 = take(Float64Array);
