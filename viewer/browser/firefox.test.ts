// The page in Firefox, if installed: every part works there too. The Chromium tests check the contents.
//
// Playwright drives the distribution's Firefox by WebDriver BiDi. Playwright 1.65 needs a command that Firefox 153 lacks
// (emulation.setMediaFeaturesOverride), so package.json has 1.64.

import { existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { firefox, type Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { example, writePage } from './command';
import { drop } from './dropping';
import { VIEWS, drawn, fileNames, show, showsPeak, state, test as inChromium } from './page';
import { serveSite, type Site } from './site';
import { skipping } from './skipping';

const EXECUTABLE = [process.env['VRAMSCOPE_FIREFOX'], '/usr/bin/firefox-esr', '/usr/bin/firefox'].find(
  (path) => path !== undefined && existsSync(path),
);

const test = inChromium.extend({
  browser: [
    async ({}, use) => {
      // Vitest prepares this before `beforeEach` skips the test.
      const browser = EXECUTABLE && (await firefox.launch({ channel: 'moz-firefox', executablePath: EXECUTABLE }));
      await use(browser as Browser);
      if (browser) await browser.close();
    },
    { scope: 'worker' },
  ],
});

let site: Site;
beforeAll(async () => {
  site = await serveSite();
});
afterAll(() => site.stop());
beforeEach(({ task, skip }) => {
  if (!EXECUTABLE) skipping('firefox', `in Firefox ${task.name}`, skip);
});

test('a self-contained page opens from the disk, with every view', async ({ open }) => {
  const address = pathToFileURL(writePage(example('oom.pickle'), example('leak.pickle'))).href;
  const page = await open(address);
  await showsPeak(page, example('oom.pickle'));
  for (const view of VIEWS) await show(page, view);
  await drop(page, example('training.pickle.zst'));
  await expect.poll(() => fileNames(page)).toEqual(['oom.pickle', 'leak.pickle', 'training.pickle.zst']);
  // Links into the page, and Back.
  await page.goto('about:blank');
  await page.goto(`${address}#view=state&file=1&moment=7`);
  await page.locator('.state-view[data-moment="7"]').waitFor();
  await show(page, 'segments');
  await expect.poll(async () => (await state(page))['view']).toBe('segments');
  await page.goBack();
  await page.locator('.state-view[data-moment="7"]').waitFor();
});

test('the site opens its examples and dropped files, and refuses other files', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  await page.getByRole('button', { name: 'Training' }).click();
  await drawn(page);
  await showsPeak(page, example('training.pickle.zst'));
  for (const view of VIEWS) await show(page, view);
  await drop(page, { name: 'cut.pickle', bytes: readFileSync(example('leak.pickle')).subarray(0, 5000) });
  await page.getByRole('alert').getByText('it is truncated').waitFor();
  await drop(page, example('leak.pickle'));
  await expect.poll(() => fileNames(page)).toHaveLength(2);
  await show(page, 'overview');
  await showsPeak(page, example('leak.pickle'));
});

test('after the first visit, the site opens offline', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => {}));
  await expect.poll(() => page.evaluate(() => navigator.serviceWorker.controller?.state)).toBe('activated');
  site.refuse = true;
  try {
    await page.reload();
    await page.getByRole('button', { name: 'Out of memory' }).click();
    await drawn(page);
    await showsPeak(page, example('oom.pickle'));
  } finally {
    site.refuse = false;
  }
});
