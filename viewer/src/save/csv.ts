// Tables as CSV (RFC 4180) and JSON.

export type Cell = string | number | null;

export interface Sheet {
  /** Names of columns, with units: `bytes`, `time_us`. */
  columns: string[];
  rows: Cell[][];
}

/** Text that a spreadsheet would run as a formula. Names in a recording are written by others, so it gets a quote in front. */
const FORMULA = /^[=+\-@\t\r]/;

export function csvCell(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(sheet: Sheet): string {
  return [sheet.columns, ...sheet.rows].map((row) => `${row.map(csvCell).join(',')}\r\n`).join('');
}

/** A JSON list with an object for each row. */
export function json(sheet: Sheet): string {
  const rows = sheet.rows.map((row) => Object.fromEntries(sheet.columns.map((name, i) => [name, row[i] ?? null])));
  return `${JSON.stringify(rows, null, 1)}\n`;
}
