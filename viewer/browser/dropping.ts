// Files that a test drops on the page.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';

export interface Dropped {
  name: string;
  bytes: Buffer;
  /** Repetitions; the memory is not copied. */
  times?: number;
  /** Bytes before and after it. */
  around?: [string, string];
}

/** Drags files onto the page and drops them; a text is the path of a file. */
export async function drop(page: Page, ...files: (string | Dropped)[]): Promise<void> {
  const transfer = await page.evaluateHandle(
    async (files) => {
      const transfer = new DataTransfer();
      for (const { name, text, times, around } of files) {
        const packed = new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]).stream();
        const part = await new Response(packed.pipeThrough(new DecompressionStream('gzip'))).blob();
        transfer.items.add(new File([around[0], ...Array.from({ length: times }, () => part), around[1]], name));
      }
      return transfer;
    },
    files
      .map((file): Dropped => (typeof file === 'string' ? { name: basename(file), bytes: readFileSync(file) } : file))
      .map(({ bytes, ...file }) => ({
        times: 1,
        around: ['', ''] as const,
        ...file,
        text: gzipSync(bytes, { level: 1 }).toString('base64'),
      })),
  );
  await page.dispatchEvent('body', 'dragenter', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'dragover', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'drop', { dataTransfer: transfer });
}
