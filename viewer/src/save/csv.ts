// Tables as CSV (RFC 4180) and JSON.

export type Cell = string | number | null;

export interface Sheet {
  /** Names of columns, with units: `bytes`, `time_us`. */
  columns: string[];
  rows: Cell[][];
}

/** Matches text that a spreadsheet would run as a formula. Names in a recording are untrusted, so such text gets a leading quote. */
const FORMULA = /^[=+\-@\t\r]/;

export function csvCell(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csvRows = (rows: readonly Cell[][]): string => rows.map((row) => `${row.map(csvCell).join(',')}\r\n`).join('');

export const csv = (sheet: Sheet): string => csvRows([sheet.columns, ...sheet.rows]);

/** Returns rows as objects of a JSON list, without its brackets and without a trailing comma. */
export const jsonRows = (columns: readonly string[], rows: readonly Cell[][]): string =>
  rows.map((row) => JSON.stringify(Object.fromEntries(columns.map((name, i) => [name, row[i] ?? null])))).join(',\n');

/** Returns a JSON list with one object per row. */
export function json(sheet: Sheet): string {
  const rows = sheet.rows.map((row) => Object.fromEntries(sheet.columns.map((name, i) => [name, row[i] ?? null])));
  return `${JSON.stringify(rows, null, 1)}\n`;
}
