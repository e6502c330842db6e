// Reads lists and columns at positions that must exist. A position outside is a bug in the page, and throws before it shows as NaN.

type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** Returns the number at a position of a column. */
export function numberAt(column: Column, position: number): number {
  const value = column[position];
  if (value === undefined) throw outside(position, column.length);
  return value;
}

/** Returns the entry at a position of a list. */
export function entryAt<T>(list: readonly T[], position: number): T {
  const value = list[position];
  if (value === undefined) throw outside(position, list.length);
  return value;
}

const outside = (position: number, length: number) => new RangeError(`there is no position ${position} among ${length}`);
