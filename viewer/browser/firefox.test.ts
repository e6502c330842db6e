// The page in Firefox, if installed: every part works there too. The Chromium tests check the contents.

import { existsSync, readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, type TestContext } from 'vitest';
import { VIEWS as TITLES, VIEW_NAMES } from '../src/state/place';
import { example, report, writePage } from './command';
import { READY } from './page';
import { serveSite, type Site } from './site';
import { skipping } from './skipping';

const EXECUTABLE = [process.env['VRAMSCOPE_FIREFOX'], '/usr/bin/firefox-esr', '/usr/bin/firefox'].find(
  (path) => path !== undefined && existsSync(path),
);

let browser: Browser | undefined;
let site: Site;
beforeAll(async () => {
  site = await serveSite();
  if (EXECUTABLE) browser = await puppeteer.launch({ browser: 'firefox', executablePath: EXECUTABLE });
});
afterAll(async () => {
  await browser?.close();
  site.stop();
});

const complaints: string[] = [];
beforeEach(() => void complaints.splice(0));
afterEach(() => expect(complaints).toEqual([]));

/** Opens an address and records Firefox's complaints. */
async function open({ task, skip }: TestContext, address: string): Promise<Page> {
  if (!browser) skipping('firefox', `in Firefox ${task.name}`, skip);
  const page = await browser!.newPage();
  await page.setViewport({ width: 1280, height: 800 });
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warn') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(address);
  return page;
}

const drawn = (page: Page) => page.waitForSelector('html[data-drawn]');

const peakOf = async (page: Page) => {
  await page.waitForSelector(READY.overview!);
  return page.$eval('[data-peak="allocated"]', (one) => Number(one.getAttribute('data-bytes')));
};

const told = (name: string) => report(example(name)).devices[0].peak_allocated_bytes;

const press = async (page: Page, role: string, name: string) => {
  const found = await page.waitForSelector(`::-p-aria([role="${role}"][name="${name}"])`);
  await found!.click();
};

/** Opens every view by its tab. */
async function walk(page: Page): Promise<void> {
  for (const view of VIEW_NAMES) {
    await press(page, 'tab', TITLES[view]);
    await page.waitForSelector(`#panel ${READY[view] ?? `.${view}-view:not([aria-busy="true"])`}`.replaceAll(', ', ', #panel '));
  }
}

/** Drops a file. */
const drop = (page: Page, name: string, bytes: Buffer) =>
  page.evaluate(
    (name, text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
      for (const type of ['dragenter', 'dragover', 'drop'])
        document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    },
    name,
    bytes.toString('base64'),
  );

test('a self-contained page opens from the disk, with every view', async (context) => {
  const address = pathToFileURL(writePage(example('oom.pickle'), example('leak.pickle'))).href;
  const page = await open(context, address);
  await drawn(page);
  expect(await peakOf(page)).toBe(told('oom.pickle'));
  await walk(page);
  // Links into the page, and Back.
  await page.goto('about:blank');
  await page.goto(`${address}#view=state&file=1&moment=7`);
  await page.waitForSelector('.state-view[data-moment="7"]');
  await press(page, 'tab', TITLES.segments);
  await page.waitForSelector('.segments-view[data-segments]');
  await page.waitForFunction(() => location.hash.includes('view=segments'));
  await page.evaluate(() => history.back());
  await page.waitForSelector('.state-view[data-moment="7"]');
  await drop(page, 'third.pickle.zst', readFileSync(example('training.pickle.zst')));
  await page.waitForFunction(() => document.querySelectorAll('.file-select option').length === 3);
});

test('the site opens its examples and dropped files, and refuses other files', async (context) => {
  const page = await open(context, site.url);
  await press(page, 'button', 'Training');
  await drawn(page);
  expect(await peakOf(page)).toBe(told('training.pickle.zst'));
  await walk(page);
  await drop(page, 'cut.pickle', readFileSync(example('leak.pickle')).subarray(0, 5000));
  await page.waitForFunction(() => document.querySelector('[role=alert]')?.textContent?.includes('it is truncated'));
  await drop(page, 'leak.pickle', readFileSync(example('leak.pickle')));
  await page.waitForFunction(() => document.querySelectorAll('.file-select option').length === 2);
  await press(page, 'tab', TITLES.overview);
  await page.waitForFunction(
    (bytes) => document.querySelector('[data-peak="allocated"]')?.getAttribute('data-bytes') === String(bytes),
    {},
    told('leak.pickle'),
  );
});

test('after the first visit, the site opens offline', async (context) => {
  const page = await open(context, site.url);
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => {}));
  await page.waitForFunction(() => navigator.serviceWorker.controller?.state === 'activated');
  site.refuse = true;
  try {
    await page.reload();
    await press(page, 'button', 'Out of memory');
    await drawn(page);
    expect(await peakOf(page)).toBe(told('oom.pickle'));
  } finally {
    site.refuse = false;
  }
});
