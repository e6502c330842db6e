// Names in a recording are untrusted text; none of it runs.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example } from './command';
import { VIEWS, legend, plotBox, serving, show, test, type View } from './page';
import { HOSTILE, hostile } from './recordings';
import { save } from './saving';

const file = hostile();

/** Views whose panels contain the name of a file, a function or a line. */
const NAMING: View[] = ['overview', 'timeline', 'state', 'segments', 'allocations', 'moment'];

/** Visits everything that shows names. */
async function walk(page: Page): Promise<void> {
  for (const view of VIEWS) {
    await show(page, view);
    // The names appear as text.
    if (NAMING.includes(view)) await expect.poll(() => page.locator('#panel').innerText(), { message: view }).toContain(HOSTILE);
    expect(
      await page
        .locator('img, script:not([src], [type="text/plain"], [type=module], body > :last-child), iframe, object')
        .count(),
    ).toBe(0);
  }
  // A list shows the end of a long name, and its title the whole name.
  await expect.poll(() => page.locator('.file-select option').first().textContent()).toContain('document.title=');
  await expect.poll(() => page.locator('.file-select').getAttribute('title')).toContain('<img src=x');
  await show(page, 'timeline');
  await page.getByRole('combobox', { name: 'Color' }).selectOption('stack');
  await legend(page).getByText(HOSTILE).waitFor();
  const box = await plotBox(page);
  const told = async () => (await page.locator('.part-tooltip').allInnerTexts()).join();
  await page.mouse.move(box.x + 0.8 * box.width, box.y + box.height - 20);
  await expect.poll(told).toContain(HOSTILE);
  await page.mouse.move(box.x + 0.5 * box.width, box.y - 9);
  await expect.poll(told).toContain(HOSTILE);
  await page.mouse.click(box.x + 0.8 * box.width, box.y + box.height - 20);
  await expect.poll(() => page.locator('aside[data-selected]').innerText()).toContain(HOSTILE);
  await page.getByRole('searchbox').fill(HOSTILE);
  await page.getByRole('searchbox').fill(`"${HOSTILE.replaceAll('"', '')}"`);
  await expect.poll(() => page.locator('#search-result').textContent()).toMatch(/match/);
  expect(await page.title()).toBe('vramscope');
  await expect.poll(() => page.locator('img').count()).toBe(0);
}

test('no name runs as code', async ({ open }) => {
  await walk(await open(await serving(file, example('leak.pickle'))));
});

test('saved pictures and tables contain no markup from names', async ({ open }) => {
  const page = await open(`${await serving(file)}#view=moment`);
  await show(page, 'moment');
  const { bytes } = await save(page, page.getByRole('button', { name: /^Save flame/ }), 'Picture as SVG');
  const svg = bytes.toString();
  expect(svg).toContain('&lt;/script&gt;');
  expect(svg).not.toMatch(/<script|<img/);
});
