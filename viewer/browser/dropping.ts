// Files that a test drops on the page.

import type { Page } from 'playwright-core';

export interface Dropped {
  name: string;
  bytes: Buffer;
  /** Repetitions; the memory is not copied. */
  times?: number;
  /** Bytes before and after it. */
  around?: [string, string];
}

/** Drags files onto the page and drops them. */
export async function drop(page: Page, ...files: Dropped[]): Promise<void> {
  const transfer = await page.evaluateHandle(
    (files) => {
      const transfer = new DataTransfer();
      for (const { name, text, times, around } of files) {
        const part = new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]);
        transfer.items.add(new File([around[0], ...Array.from({ length: times }, () => part), around[1]], name));
      }
      return transfer;
    },
    files.map(({ name, bytes, times = 1, around = ['', ''] as [string, string] }) => ({
      name,
      text: bytes.toString('base64'),
      times,
      around,
    })),
  );
  await page.dispatchEvent('body', 'dragenter', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'dragover', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'drop', { dataTransfer: transfer });
}
