// Files that the page saves.

import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';

export interface Saved {
  name: string;
  path: string;
  bytes: Buffer;
}

/** Returns the file that an action saves. */
export async function saved(page: Page, act: () => Promise<unknown>): Promise<Saved> {
  const [download] = await Promise.all([page.waitForEvent('download'), act()]);
  const path = await download.path();
  return { name: download.suggestedFilename(), path, bytes: readFileSync(path) };
}

/** Saves with a button's menu. */
export async function save(page: Page, button: Locator, form: string): Promise<Saved> {
  await button.click();
  const menu = page.getByRole('menu');
  const file = await saved(page, () => menu.getByRole('menuitem', { name: form }).click());
  await menu.waitFor({ state: 'hidden' });
  return file;
}

/** Saves a picture and returns its texts. */
export async function pictureTexts(page: Page, button: Locator): Promise<string[]> {
  const { bytes } = await save(page, button, 'Picture as SVG');
  return page.evaluate((text) => {
    const { documentElement: root } = new DOMParser().parseFromString(text, 'image/svg+xml');
    return [...root.querySelectorAll('text')].map((one) => one.textContent ?? '');
  }, bytes.toString());
}

/** Parses records of RFC 4180. */
export function records(csv: string): string[][] {
  const rows: string[][] = [];
  let [row, cell, quoted]: [string[], string, boolean] = [[], '', false];
  for (let i = 0; i < csv.length; i += 1) {
    const c = csv[i]!;
    if (quoted && c === '"' && csv[i + 1] === '"') [cell, i] = [`${cell}"`, i + 1];
    else if (c === '"') quoted = !quoted;
    else if (quoted) cell += c;
    else if (c === ',') [row, cell] = [[...row, cell], ''];
    else if (c === '\n') {
      rows.push([...row, cell.replace(/\r$/, '')]);
      [row, cell] = [[], ''];
    } else cell += c;
  }
  expect(cell).toBe('');
  return rows;
}
