// Reads lists and columns at positions that must lie inside. One outside is a fault of the page: it throws here, before it becomes a
// NaN on the screen.

/** A column of numbers. */
type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** The number at a position of a column. */
export function numberAt(column: Column, position: number): number {
  const value = column[position];
  if (value === undefined) throw outside(position, column.length);
  return value;
}

/** The entry at a position of a list. */
export function entryAt<T>(list: readonly T[], position: number): T {
  const value = list[position];
  if (value === undefined) throw outside(position, list.length);
  return value;
}

const outside = (position: number, length: number) => new RangeError(`there is no position ${position} among ${length}`);
