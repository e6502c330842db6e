// Recordings with missing parts: each view says so instead of being blank.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { serve } from './command';
import { VIEWS, fileMenu, numberOf, serving, show, state, tableRows, test, type View } from './page';
import { empty, known, oneIdle, segmentsOnly } from './recordings';
import { onlyServed } from './transport';

/** Yields every view with its text. */
async function texts(page: Page): Promise<Record<View, string>> {
  const found: Partial<Record<View, string>> = {};
  for (const view of VIEWS) {
    await show(page, view);
    found[view] = await page.locator('#panel').innerText();
    expect(found[view]!.trim().length, view).toBeGreaterThan(20);
    expect(found[view], view).not.toMatch(/NaN|undefined|Infinity|null|-1 /);
  }
  return found as Record<View, string>;
}

test('an empty recording', async ({ open }) => {
  const page = await open(await serving(empty()), { draws: false });
  await page.getByText('This file has no device data').waitFor();
  for (const key of ['1', '5', '+', '-', 'ArrowLeft', 'ArrowDown', ']', '[', '0', ',']) await page.keyboard.press(key);
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
});

test('an empty recording beside another', async ({ open }) => {
  const page = await open(await serving(empty(), known(12).file), { draws: false });
  await fileMenu(page).selectOption({ label: 'known.json' });
  await page.locator('.overview[aria-busy="false"]').waitFor();
  await texts(page);
  await fileMenu(page).selectOption({ label: 'empty.json' });
  await page.getByText('This file has no device data').waitFor();
  await fileMenu(page).selectOption({ label: 'known.json' });
  await page.locator(`.${VIEWS.at(-1)}-view`).waitFor();
});

test('an unused device beside a used one', async ({ open }) => {
  const page = await open(await serving(oneIdle()));
  const devices = page.getByRole('combobox', { name: 'Device' });
  for (const choice of await devices.locator('option').all()) {
    await devices.selectOption(await choice.getAttribute('value'));
    await texts(page);
  }
});

test('segments without a history', async ({ open }) => {
  const page = await open(await serving(segmentsOnly()));
  const said = await texts(page);
  expect(said.state).toContain('No history was recorded');
  expect(said.whatif).toContain('no history to replay');
  expect(said.compare).toContain('nothing to compare with');
  await page.getByText('No events were recorded').waitFor();
  for (const key of ['+', '-', 'ArrowLeft', 'ArrowDown', ']', '[', '0', ',']) await page.keyboard.press(key);
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
  await show(page, 'state');
  const data = await page.locator('.state-view').evaluate((view) => ({ ...view.dataset }));
  expect(data).toMatchObject({ moment: '0', allocated: String(14 << 20), active: String(14 << 20), reserved: String(22 << 20) });
  await show(page, 'segments');
  await expect.poll(() => numberOf(page, '.segments-view', 'data-segments')).toBe(2);
  await show(page, 'moment');
  await expect.poll(() => numberOf(page, '.moment-view', 'data-total')).toBe(14 << 20);
  expect((await tableRows(page, /^Allocated by/)).length).toBeGreaterThan(0);
});

test('without times there is no axis of time', async ({ open }) => {
  const page = await open(`${await serving(known(12, { times: false }).file)}#axis=time&view=timeline`);
  await expect.poll(() => page.getByRole('combobox', { name: 'Along' }).locator('option').allTextContents()).toEqual(['events']);
  await texts(page);
  await expect.poll(async () => (await state(page))['axis']).toBeUndefined();
});

test('events without stacks', async ({ open }) => {
  const page = await open(await serving(known(12, { stacks: false }).file));
  const said = await texts(page);
  expect(said.moment).toContain('(no stack)');
  await show(page, 'timeline');
  await page.getByRole('searchbox').fill('>1');
  await page.locator('[data-matches="12"]').waitFor();
  await page.getByRole('searchbox').press('Enter');
  await expect.poll(() => page.locator('aside[data-selected]').innerText()).toContain('No stack was recorded.');
});

test('a stopped server is reported', async ({ open, skip }) => {
  onlyServed(skip, 'an end that the page outlives');
  const served = await serve(known(12).file);
  const page = await open(served.url, { expected: /ERR_/ });
  await show(page, 'overview');
  served.stop();
  await new Promise((ended) => served.process.once('exit', ended));
  await page.keyboard.press('5');
  await expect.poll(() => page.locator('body').innerText()).toContain('vramscope view does not answer. Is it still running?');
});
