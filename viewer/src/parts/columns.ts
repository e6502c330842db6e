// Table columns by type. A cell shows rounded text; its title and the saved file have the exact value.

import type { Cell } from '../save/csv';
import { address, bytes, count, signedBytes } from '../text/units';

export interface Column<R> {
  /** Its name in saved tables, with the unit: `allocated_bytes`. */
  key: string;
  title: string;
  numeric: boolean;
  /** The saved value; also the sort key if there is no `order`. */
  value: (row: R) => Cell;
  order?: (row: R) => number;
  text: (row: R) => string;
  exact: (row: R) => string;
  /** The value's share of the whole, from 0 to 1, drawn as a bar behind the text. */
  bar?: (row: R) => number;
  /** The row's color in pictures, as CSS; null if pictures use other colors. */
  swatch?: (row: R) => string | null;
  /** Whether the column takes the remaining width. */
  wide?: boolean;
  /** An explanation of the title. */
  hint?: string;
}

type Get<R, T> = (row: R) => T;

export function textColumn<R>(key: string, title: string, get: Get<R, string>, wide = false): Column<R> {
  return { key, title, numeric: false, value: get, text: get, exact: get, wide };
}

export function bytesColumn<R>(key: string, title: string, get: Get<R, number | null>, whole?: number): Column<R> {
  const column = number(key, title, get, bytes, ' bytes');
  return whole ? { ...column, bar: (row) => (get(row) ?? 0) / whole } : column;
}

/** Sorted by size: what shrank by much stands beside what grew by much. */
export function changeColumn<R>(key: string, title: string, get: Get<R, number | null>): Column<R> {
  return { ...number(key, title, get, signedBytes, ' bytes'), order: (row) => Math.abs(get(row) ?? 0) };
}

export function countColumn<R>(key: string, title: string, get: Get<R, number | null>): Column<R> {
  return number(key, title, get, count, '');
}

export function addressColumn<R>(key: string, title: string, get: Get<R, number>): Column<R> {
  const text = (row: R) => address(get(row));
  return { key, title, numeric: true, value: text, order: get, text, exact: text };
}

function number<R>(
  key: string,
  title: string,
  get: Get<R, number | null>,
  human: (n: number) => string,
  unit: string,
): Column<R> {
  const or = (row: R, show: (n: number) => string) => {
    const n = get(row);
    return n === null ? '–' : show(n);
  };
  return {
    key,
    title,
    numeric: true,
    value: get,
    text: (row) => or(row, human),
    exact: (row) => or(row, (n) => `${n.toLocaleString('en-US')}${unit}`),
  };
}

/** Compares texts with numbers by value. Shared, because creating a collator is slow. */
const TEXTS = new Intl.Collator('en', { numeric: true });

/** Returns a sorted copy of the rows. Rows without a value come last in both directions. */
export function sorted<R>(rows: readonly R[], column: Column<R>, descending: boolean): R[] {
  const sign = descending ? -1 : 1;
  const by = column.order ?? column.value;
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  keyed.sort(({ key: x }, { key: y }) => {
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
    if (typeof x === 'number' && typeof y === 'number') return sign * (x - y);
    return sign * TEXTS.compare(String(x), String(y));
  });
  return keyed.map(({ row }) => row);
}
