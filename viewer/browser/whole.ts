// A view without gaps.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Texts that missing values become by mistake. */
const NOTHING = /NaN|undefined|\[object|Infinity/;

/** Expects the view to be drawn, without a text that only a missing value becomes. */
export async function looksWhole(page: Page, where: string): Promise<void> {
  expect(await page.locator('.failed').count(), where).toBe(0);
  const [text, ...titles] = await page.evaluate(() => [
    document.body.innerText,
    ...[...document.querySelectorAll('[title]')].map((one) => one.getAttribute('title')!),
  ]);
  expect(text, where).not.toMatch(NOTHING);
  expect(
    titles.filter((title) => NOTHING.test(title)),
    where,
  ).toEqual([]);
}
