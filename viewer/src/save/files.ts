// Names of saved files, and downloads.

import { csv, csvRows, json, jsonRows, type Cell, type Sheet } from './csv';

const EXTENSIONS = /\.(pickle|pkl|json|log|csv|zst|gz)$/i;

/** Returns a recording's name without path and extensions, in portable characters: `gpt2` for `/data/gpt2.pickle.zst`. */
export function stem(recording: string): string {
  let name = recording.split(/[/\\]/).pop() ?? '';
  while (EXTENSIONS.test(name)) name = name.replace(EXTENSIONS, '');
  return name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[-.]+|[-.]+$/g, '') || 'recording';
}

/** Returns `gpt2-moment-12345.csv`. */
export function fileName(recording: string, subject: string, extension: string): string {
  return `${stem(recording)}-${subject}.${extension}`;
}

export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser may still be reading it, so revoke it later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export interface SaveItem {
  label: string;
  extension: string;
  make: () => Promise<Blob> | Blob;
}

/** Menu items that save a table, created when chosen. */
export function sheetItems(make: () => Sheet): SaveItem[] {
  return [
    { label: 'Table as CSV', extension: 'csv', make: () => new Blob([csv(make())], { type: 'text/csv' }) },
    { label: 'Table as JSON', extension: 'json', make: () => new Blob([json(make())], { type: 'application/json' }) },
  ];
}

/** Yields a table's rows in parts. */
type RowsInParts = () => AsyncGenerator<Cell[][]>;

/** Like `sheetItems`, for a table too long for one text: the parts become blobs, which a browser need not keep in memory. */
export function streamedItems(columns: string[], parts: RowsInParts): SaveItem[] {
  const whole = async (type: string, before: string, between: string, after: string, text: (rows: Cell[][]) => string) => {
    const blobs: BlobPart[] = [before];
    for await (const rows of parts()) blobs.push(new Blob([blobs.length > 1 ? between : '', text(rows)]));
    return new Blob([...blobs, after], { type });
  };
  return [
    { label: 'Table as CSV', extension: 'csv', make: () => whole('text/csv', csvRows([columns]), '', '', csvRows) },
    {
      label: 'Table as JSON',
      extension: 'json',
      make: () => whole('application/json', '[\n', ',\n', '\n]\n', (rows) => jsonRows(columns, rows)),
    },
  ];
}
