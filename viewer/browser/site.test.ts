// The static site: the engine in the browser, without the command; after the first visit without a network, too.

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect } from 'vitest';
import { example, report } from './command';
import { VIEWS, numberOf, show, test } from './page';
import { serveSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await serveSite();
});
afterAll(() => site.stop());

const peak = (file: string) => report(example(file)).devices[0].peak_allocated_bytes;

test.for(['oom.pickle', 'training.pickle.zst', 'leak.pickle'])('an example is one click away: %s', async (file, { open }) => {
  const page = await open(site.url, { draws: false });
  const titles: Record<string, string> = {
    'oom.pickle': 'Out of memory',
    'training.pickle.zst': 'Training',
    'leak.pickle': 'A leak',
  };
  await page.getByRole('button', { name: titles[file]! }).click();
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(peak(file));
  for (const view of VIEWS) await show(page, view);
});

test('a file that is chosen is read in the page, and nobody is asked anything', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  const asked: string[] = [];
  page.on('request', (request) => {
    // The engine is begun in a worker; the keeper of the site answers for its files.
    if (!request.url().endsWith('worker.js')) asked.push(request.url());
  });
  await page.locator('input[type=file]').setInputFiles([example('leak.pickle'), example('oom.pickle')]);
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  for (const view of VIEWS) await show(page, view);
  expect(await page.getByRole('combobox', { name: 'File' }).locator('option').count()).toBe(2);
  expect(asked).toEqual([]);
});

test('what is no recording is an error, and the page goes on', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  const files = page.locator('input[type=file]');
  const alert = page.getByRole('alert');
  await files.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('These are notes, no recording.') });
  await expect.poll(() => alert.textContent()).toContain('notes.txt: ');
  const cut = readFileSync(example('leak.pickle')).subarray(0, 5000);
  await files.setInputFiles({ name: 'cut.pickle', mimeType: '', buffer: cut });
  await expect.poll(() => alert.textContent()).toContain('it is truncated');
  await files.setInputFiles(example('leak.pickle'));
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(peak('leak.pickle'));
});

test('after the first visit it opens without a network', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.context().setOffline(true);
  await page.reload();
  await page.getByRole('button', { name: 'Out of memory' }).click();
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(peak('oom.pickle'));
  for (const view of VIEWS) await show(page, view);
});
