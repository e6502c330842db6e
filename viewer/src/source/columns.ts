// Binary answers: a JSON head, followed by the columns of numbers that it refers to.
//
//   u32 length of the head | head, padded to 8 | column, padded to 8 | column ...
//
// In the head, {"u32": [8, 100]} stands for a column of 100 numbers that begins 8 bytes after the head. Numbers are little-endian, like
// all machines that run a browser.

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array } as const;
type Column = InstanceType<(typeof ARRAYS)[keyof typeof ARRAYS]>;

const padded = (n: number) => (n + 7) & ~7;

/** Decodes an answer. Its columns become typed arrays that are views into `buffer`, without copies. */
export function decode<T>(buffer: ArrayBuffer): T {
  const length = new DataView(buffer).getUint32(0, true);
  const head: unknown = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return withColumns(head, buffer, padded(4 + length)) as T;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Replaces column references in objects, and in objects in lists, by typed arrays. */
function withColumns(value: unknown, buffer: ArrayBuffer, behind: number): unknown {
  if (Array.isArray(value)) return isObject(value[0]) ? value.map((one) => withColumns(one, buffer, behind)) : value;
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([key, member]) => [
    key,
    column(member, buffer, behind) ?? withColumns(member, buffer, behind),
  ]);
  return Object.fromEntries(members);
}

/** Returns the column that a member such as `{"u32": [8, 100]}` refers to, or null. */
function column(member: unknown, buffer: ArrayBuffer, behind: number): Column | null {
  if (!isObject(member)) return null;
  const [[kind, place] = [], ...more] = Object.entries(member);
  if (kind === undefined || more.length > 0 || !(kind in ARRAYS)) return null;
  const [begin, length] = place as [number, number];
  return new ARRAYS[kind as keyof typeof ARRAYS](buffer, behind + begin, length);
}
