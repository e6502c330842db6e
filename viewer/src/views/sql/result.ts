// A result of the SQL console as a table, and the places of the recording that its rows name.

import { addressColumn, bytesColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import type { Range } from '../../numbers/scale';
import type { SqlAnswer, SqlColumn } from '../../source/source';

type Value = SqlColumn['values'][number];

/** A row by its position in the result. */
export type Row = number;

export const rowCount = ({ columns }: SqlAnswer) => columns[0]?.values.length ?? 0;

export const valueAt = (column: SqlColumn, row: Row): Value => column.values[row] ?? null;

export const numberIn = (column: SqlColumn | undefined, row: Row): number | null => {
  const value = column && valueAt(column, row);
  return typeof value === 'number' ? value : null;
};

export const textIn = (column: SqlColumn | undefined, row: Row): string => {
  const value = column && valueAt(column, row);
  return value == null ? '' : String(value);
};

/** Returns the names of the columns, each once: `event`, `event (2)`. */
export function uniqueNames(columns: readonly SqlColumn[]): string[] {
  const taken = new Set<string>();
  return columns.map(({ name }) => {
    let free = name;
    for (let n = 2; taken.has(free); n += 1) free = `${name} (${n})`;
    taken.add(free);
    return free;
  });
}

/** Whether a column has bytes: by its name, as in the tables. */
export const isBytes = ({ name, is_number }: SqlColumn) => is_number && /(^|_)bytes$/.test(name);

const FRACTIONS = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 6 });

export function tableColumns(columns: readonly SqlColumn[]): Column<Row>[] {
  const names = uniqueNames(columns);
  return columns.map((column, at) => {
    const name = names[at]!;
    const number = (row: Row) => numberIn(column, row);
    if (isBytes(column)) return bytesColumn(name, name, number);
    const isWhole = column.values.every((value) => value === null || (typeof value === 'number' && Number.isInteger(value)));
    if (column.is_number && isWhole) {
      if (column.name === 'address' && !column.values.includes(null)) return addressColumn(name, name, (row) => number(row) ?? 0);
      return countColumn(name, name, number);
    }
    if (!column.is_number) return textColumn(name, name, (row) => textIn(column, row));
    // Fractions, and whole numbers beyond the precision of a number, which are texts.
    const text = (row: Row) => {
      const value = number(row);
      return value === null ? textIn(column, row) || '–' : FRACTIONS.format(value);
    };
    return {
      key: name,
      title: name,
      numeric: true,
      value: (row) => valueAt(column, row),
      text,
      exact: (row) => textIn(column, row),
    };
  });
}

/** A place of a recording that a row names. */
export interface Target {
  /** The position of its file in the page. */
  file: number;
  /** The number of its device; null: not named. */
  device: number | null;
  /** An allocation, the moment after an event, and the moments around an interval; null: not named. */
  allocation: number | null;
  moment: number | null;
  span: Range | null;
}

/**
 * Returns the place that a row names by its columns `allocation`, `event` or one that ends in `_event`, and `first_event` with `last_event`;
 * null if it names none, or if several files are open and it does not name one.
 */
export function targetOf({ columns, files }: SqlAnswer, row: Row): Target | null {
  const named = (name: string) => columns.find((column) => column.name === name);
  const number = (name: string) => numberIn(named(name), row);
  const [allocation, first, last] = [number('allocation'), number('first_event'), number('last_event')];
  const span: Range | null = first !== null && last !== null && first <= last ? [first, last + 1] : null;
  const events = columns.filter(({ name }) => name.endsWith('_event')).map((column) => numberIn(column, row));
  const event = span ? null : (number('event') ?? events.find((value) => value !== null) ?? null);
  if (allocation === null && event === null && span === null) return null;
  const [rank, file] = [number('rank'), textIn(named('file'), row)];
  const fits = files.filter((one) => (rank === null || one.rank === rank) && (file === '' || one.name === file));
  if (fits.length !== 1) return null;
  const moment = event === null ? null : event + 1;
  return { file: fits[0]!.position, device: number('device'), allocation, moment, span };
}
