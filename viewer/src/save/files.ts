// Names of saved files, and downloads.

import { csv, json, type Sheet } from './csv';

const EXTENSIONS = /\.(pickle|pkl|json|log|csv|zst|gz)$/i;

/** The name of a recording without path and extensions, in characters that any system takes: `gpt2` of `/data/gpt2.pickle.zst`. */
export function stem(recording: string): string {
  let name = recording.split(/[/\\]/).pop() ?? '';
  while (EXTENSIONS.test(name)) name = name.replace(EXTENSIONS, '');
  return name.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[-.]+|[-.]+$/g, '') || 'recording';
}

/** `gpt2-moment-12345.csv`. */
export function fileName(recording: string, subject: string, extension: string): string {
  return `${stem(recording)}-${subject}.${extension}`;
}

export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser may still be reading it: it is given back later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export interface SaveItem {
  label: string;
  extension: string;
  make: () => Promise<Blob> | Blob;
}

/** Menu items that save a table, which is made when one is chosen. */
export function sheetItems(make: () => Sheet): SaveItem[] {
  return [
    { label: 'Table as CSV', extension: 'csv', make: () => new Blob([csv(make())], { type: 'text/csv' }) },
    { label: 'Table as JSON', extension: 'json', make: () => new Blob([json(make())], { type: 'application/json' }) },
  ];
}
