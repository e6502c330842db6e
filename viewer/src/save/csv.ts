// Tables as CSV (RFC 4180) and JSON.

export type Cell = string | number | null;

export interface Sheet {
  /** Names of columns, with units: `bytes`, `time_us`. */
  columns: string[];
  rows: Cell[][];
}

/** Spreadsheets run text that begins like a formula; names in a recording are anybody's text. */
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

/** One object a row. */
export function json(sheet: Sheet): string {
  const rows = sheet.rows.map((row) => Object.fromEntries(sheet.columns.map((name, i) => [name, row[i] ?? null])));
  return `${JSON.stringify(rows, null, 1)}\n`;
}
