// The bars at the top in windows of any width.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example } from './command';
import { serving, test } from './page';

/** Returns controls of the bars that overlap, or that are partly outside the window. */
const covered = (page: Page): Promise<string[]> =>
  page.locator('header.bars').evaluate((bars) => {
    const controls = [...bars.querySelectorAll<HTMLElement>('button, select, input:not([hidden]), #search-result')];
    const shown = controls.filter((one) => one.offsetWidth > 0);
    const name = (one: HTMLElement) => one.id || one.getAttribute('aria-label') || one.textContent!.slice(0, 20);
    const wrong: string[] = [];
    for (const [i, one] of shown.entries()) {
      const a = one.getBoundingClientRect();
      if (a.left < 0 || a.right > innerWidth) wrong.push(`${name(one)} leaves the window`);
      for (const other of shown.slice(i + 1)) {
        const b = other.getBoundingClientRect();
        // Half a pixel of rounding is fine.
        const apart = a.right < b.left + 0.5 || b.right < a.left + 0.5 || a.bottom < b.top + 0.5 || b.bottom < a.top + 0.5;
        if (!apart) wrong.push(`${name(one)} and ${name(other)}`);
      }
    }
    return wrong;
  });

test.for([1600, 1280, 1024, 800, 600, 480])('no control covers another in a window of %i pixels', async (width, { open }) => {
  const address = await serving(example('leak.pickle'), example('oom.pickle'));
  const page = await open(address, { viewport: { width, height: 800 } });
  expect(await covered(page)).toEqual([]);
  await page.getByRole('searchbox').focus();
  const help = (await page.getByRole('note').boundingBox())!;
  expect([help.x >= 0, help.x + help.width <= width]).toEqual([true, true]);
  await page.getByRole('searchbox').fill('leak');
  await page.locator('[data-matches]').waitFor();
  expect(await covered(page)).toEqual([]);
});

test.for([1280, 1440])('each menu of the timeline shows its label, %i pixels wide', async (width, { open }) => {
  const page = await open(await serving(example('oom.pickle')), { viewport: { width, height: 720 } });
  const menus = page.getByRole('group', { name: 'Timeline' }).locator('label.select > span');
  expect(await menus.allTextContents()).toEqual(['Bytes', 'Along', 'Color']);
  for (const menu of await menus.all()) expect((await menu.boundingBox())!.width).toBeGreaterThan(20);
});

test('the number of matches and their bytes are not cut, 1280 pixels wide', async ({ open }) => {
  const page = await open(await serving(example('training.pickle.zst')), { viewport: { width: 1280, height: 720 } });
  await page.getByRole('searchbox').fill('category:gradient');
  await page.locator('[data-matches]').waitFor();
  const result = page.locator('#search-result');
  expect(await result.textContent()).toMatch(/^\d+ matches, [\d.]+ MiB in total$/);
  expect(await result.evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0);
});
