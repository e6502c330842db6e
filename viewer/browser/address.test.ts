// The page's state is stored in its address.

import { isDeepStrictEqual } from 'node:util';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example } from './command';
import { fileMenu, panel, plotBox, redrawn, serving, show, state, test } from './page';

const LEAK = example('leak.pickle');
const OOM = example('oom.pickle');

/** Returns the state of the page without its address. */
const shown = (page: Page) =>
  page.evaluate(() => ({
    tab: document.querySelector('[role=tab][aria-selected=true]')!.textContent,
    selects: [...document.querySelectorAll('select')].map((s) => s.value),
    search: document.querySelector<HTMLInputElement>('input[type=search]')!.value,
    // Times in the address are whole microseconds.
    brush: [...document.querySelector('.minimap-brush')!.getClientRects()].map((b) => [Math.round(b.left), Math.round(b.right)]),
    timeline: document.querySelector('.timeline-over')!.getAttribute('aria-label'),
    selected: document.querySelector<HTMLElement>('[data-selected]')?.dataset['selected'],
    matches: document.querySelector('.search-result')!.textContent,
  }));

/** The same, once it no longer changes: the timeline is drawn again with the matches of a search. */
async function settled(page: Page) {
  for (let before = await shown(page); ; ) {
    await page.waitForTimeout(500);
    const now = await shown(page);
    if (isDeepStrictEqual(now, before)) return now;
    before = now;
  }
}

test('a reloaded page shows the same state', async ({ open }) => {
  const page = await open(await serving(LEAK, OOM));
  await fileMenu(page).selectOption('1');
  await show(page, 'timeline');
  await page.getByRole('combobox', { name: 'Along' }).selectOption('time');
  await page.getByRole('combobox', { name: 'Bytes' }).selectOption('requested');
  await page.getByRole('combobox', { name: 'Color' }).selectOption('size');
  await page.getByRole('img', { name: /s: at most .* requested/ }).waitFor();
  const box = await plotBox(page);
  await page.mouse.move(box.x + 400, box.y + 200);
  await redrawn(page, () => page.mouse.wheel(0, -250));
  await page.mouse.click(box.x + 400, box.y + box.height - 30);
  await page.locator('aside[data-selected]').waitFor();
  await page.getByRole('searchbox').fill('stream:0');
  await page.locator('[data-matches]').waitFor();
  await expect
    .poll(() => state(page))
    .toEqual({
      view: 'timeline',
      file: '1',
      axis: 'time',
      stacked: 'requested',
      color: 'size',
      search: 'stream:0',
      range: expect.any(String),
      moment: expect.any(String),
      selected: expect.any(String),
    });
  const [kept, before] = [await state(page), await settled(page)];
  await page.reload();
  await page.locator('aside[data-selected]').waitFor();
  await expect.poll(() => shown(page)).toEqual(before);
  expect(await state(page)).toEqual(kept);
});

test('moments, groups and settings are kept', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=moment&moment=900`);
  await page.getByRole('combobox', { name: 'Group by' }).selectOption('function');
  await panel(page).getByRole('button', { name: 'the peak' }).click();
  await page.locator('.moment-view[data-against]').waitFor();
  await show(page, 'whatif');
  await page
    .getByRole('grid', { name: /^Settings/ })
    .locator('tr[data-row="2"]')
    .click();
  await expect.poll(() => state(page)).toEqual({ view: 'whatif', moment: '900', against: '1398', by: 'function', setting: '2' });
  await page.reload();
  await page.locator('tr[data-row="2"][aria-selected="true"]').waitFor();
  await show(page, 'moment');
  await page.locator('.moment-view[data-moment="900"][data-against="1398"]').waitFor();
  await expect.poll(() => page.getByRole('combobox', { name: 'Group by' }).inputValue()).toBe('function');
});

test('the page follows an edited address and Back', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state&moment=5`);
  await page.locator('.state-view[data-moment="5"]').waitFor();
  await page.evaluate(() => (location.hash = 'view=state&moment=77'));
  await page.locator('.state-view[data-moment="77"]').waitFor();
  await page.evaluate(() => (location.hash = 'view=moment&moment=80'));
  await page.locator('.moment-view[data-moment="80"]').waitFor();
  await page.goBack();
  await page.locator('.state-view[data-moment="77"]').waitFor();
  await page.goBack();
  await page.locator('.state-view[data-moment="5"]').waitFor();
  await page.goForward();
  await page.locator('.state-view[data-moment="77"]').waitFor();
});

const NONSENSE = [
  'search=constructor:x',
  'view=nothing&file=99&device=7&moment=-3&range=9~1',
  'view=state&moment=99999999999&by=nobody&selected=123456789&color=x',
  'view=moment&moment=1.5&against=999999999&range=5000000~6000000',
  'view=timeline&range=NaN~Infinity&bytes=~&axis=sideways&stacked=cake',
  'view=timeline&range=100~100&bytes=5~5',
  'view=timeline&range=0~0.0000001&bytes=900000000000000~999999999999999',
  'view=compare&other=5.5&bytes=0~1e400&range=1e5~2e5',
  'view=whatif&setting=1000&file=0.5',
  'search=%00%3C%22((%5B&%%%&&==%E0%A4%A&view',
];

test('invalid values in the address are harmless', { timeout: 120_000 }, async ({ open }) => {
  const url = await serving(OOM);
  // Missing moments and allocations may be requested, and are refused.
  const page = await open(url, { expected: /status of 4\d\d/ });
  const works = async () => {
    await page.locator('#panel > *').first().waitFor();
    await page.keyboard.press('0');
    await page.keyboard.press('1');
    await page.locator('.overview[aria-busy="false"]').waitFor();
    await page.getByRole('img', { name: /^Timeline of live allocations .* events 0 to 2,060: at most/ }).waitFor();
  };
  for (const hash of NONSENSE) {
    await page.goto('about:blank');
    await page.goto(`${url}#${hash}`);
    await works();
    // The same, later in the history.
    await page.evaluate((to) => (location.hash = to), hash);
    await works();
  }
});
