// The page in a browser. Console errors, and requests to other servers, fail the test.

import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';
import { expect, test as plain } from 'vitest';
import type { Source } from '../src/source/questions';
import { VIEWS as TITLES, VIEW_NAMES, type ViewName } from '../src/state/place';
import { asking } from './asking';
import { report, scratch, serve, serveRanks, writePage } from './command';
import { serveSite } from './site';
import { TRANSPORT } from './transport';

export type View = ViewName;
export const VIEWS = VIEW_NAMES;

// The headless shell: tests take two thirds of the time.
const EXECUTABLE =
  process.env['VRAMSCOPE_CHROMIUM'] ?? ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path));
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const LAUNCHING = { ...(EXECUTABLE ? { executablePath: EXECUTABLE } : {}), args: ARGUMENTS };

export const launch = (): Promise<Browser> => chromium.launch(LAUNCHING);

/** A browser with a persistent profile, which installing pages requires. */
export const launchWithProfile = (): Promise<BrowserContext> => chromium.launchPersistentContext(scratch(), LAUNCHING);

export interface OpenOptions extends BrowserContextOptions {
  /** Expected complaints of the browser. */
  expected?: RegExp;
  /** A script to run before the page's own. */
  before?: string;
  /** Whether the page has something to draw. */
  draws?: boolean;
  /** The allowed requests: by default, the address under test. */
  allowed?: string;
}

/** Closing a file leaves its pending requests without an answer. */
export const CLOSING: OpenOptions = { expected: /status of 404/ };

export type Open = (address: string, options?: OpenOptions) => Promise<Page>;

/** Records forbidden actions of a page. */
function watch(page: Page, address: string, problems: string[], expected: RegExp | undefined): void {
  const problem = (text: string) => {
    if (!expected?.test(text)) problems.push(text);
  };
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') problem(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => problem(`error: ${error.stack ?? error.message}`));
  page.on('dialog', (dialog) => {
    problem(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const asked = new URL(request.url());
    const own = new URL(address);
    const allowed = own.protocol === 'file:' ? asked.pathname === own.pathname : asked.origin === own.origin;
    if (!allowed && asked.protocol !== 'blob:' && asked.protocol !== 'data:') problem(`request: ${request.url()}`);
  });
}

const running: { stop: () => void }[] = [];
const shared = new Map<string, Promise<string>>();

/** A test with a browser: `open` opens an address. */
export const test = plain.extend<{ browser: Browser; commands: void; open: Open }>({
  browser: [
    async ({}, use) => {
      const browser = await launch();
      await use(browser);
      await browser.close();
    },
    { scope: 'worker' },
  ],
  // Servers run until the test file ends.
  commands: [
    async ({}, use) => {
      await use();
      running.splice(0).forEach((served) => served.stop());
      shared.clear();
    },
    { scope: 'file', auto: true },
  ],
  open: async ({ browser }, use) => {
    const contexts: BrowserContext[] = [];
    const problems: string[] = [];
    await use(async (address, { expected, before, draws = true, allowed = address, ...options } = {}) => {
      // A page on the disk must work with the network cut.
      const offline = allowed.startsWith('file:');
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        colorScheme: 'light',
        offline,
        ...options,
      });
      context.setDefaultTimeout(15_000);
      contexts.push(context);
      if (before) await context.addInitScript(before);
      const page = await context.newPage();
      watch(page, allowed, problems, expected);
      await page.goto(address);
      if (draws) await drawn(page);
      return page;
    });
    await Promise.all(contexts.map((context) => context.close()));
    expect(problems).toEqual([]);
  },
});

/** Returns the address of a separate page with these files, for tests that open more. Without a server only the site starts empty. */
export async function servingAlone(...files: string[]): Promise<string> {
  if (TRANSPORT === 'worker' && files.length > 0) return pathToFileURL(writePage(...files)).href;
  const served = TRANSPORT === 'worker' ? await serveSite() : await serve(...files);
  running.push(served);
  return served.url;
}

/** Returns a source for these files, which the command's server answers with both transports. */
export async function answering(...files: string[]): Promise<Source> {
  const served = await serve(...files);
  running.push(served);
  return asking(served.url);
}

/** Returns the address of the page of all ranks of a job. */
export async function servingRanks(folder: string, cwd?: string): Promise<string> {
  const served = await serveRanks(folder, cwd);
  running.push(served);
  return served.url;
}

/** Returns the address of a page with these files. */
export function serving(...files: string[]): Promise<string> {
  const key = files.join('\n');
  const address = shared.get(key) ?? servingAlone(...files);
  shared.set(key, address);
  return address;
}

/** Changes the address after its `#`, and waits until the page has read it. */
export const goTo = (page: Page, hash: string): Promise<void> =>
  page.evaluate(
    (to) =>
      new Promise<void>((done) => {
        addEventListener('hashchange', () => done(), { once: true });
        location.hash = to;
      }),
    hash,
  );

/** Waits for the first drawing of the timeline. */
export const drawn = (page: Pick<Page, 'locator'>) => page.locator('html[data-drawn]').waitFor({ state: 'attached' });

/** Returns the number of timeline drawings so far. */
export const drawings = (page: Page): Promise<number> =>
  page.evaluate(() => Number(document.documentElement.dataset['drawn'] ?? 0));

/** Runs an action and waits until the timeline has drawn its result. */
export async function redrawn(page: Page, act: () => Promise<unknown>): Promise<void> {
  const before = await drawings(page);
  await act();
  await expect.poll(() => drawings(page)).toBeGreaterThan(before);
}

/** Returns the address after its #. */
export async function state(page: Page): Promise<Record<string, string>> {
  return Object.fromEntries(new URLSearchParams((await page.evaluate(() => location.hash)).slice(1)));
}

/** Parses `from~to`, the form of `range` and `bytes`. */
export const pair = (text: string | undefined): [number, number] => {
  const [from, to] = (text ?? '').split('~').map(Number);
  return [from ?? NaN, to ?? NaN];
};

/** The menu of the open files. */
export const fileMenu = (page: Page) => page.getByRole('combobox', { name: 'File' });
export const fileNames = (page: Page): Promise<string[]> => fileMenu(page).locator('option').allTextContents();

export const legend = (page: Page) => page.getByRole('list', { name: 'Legend' });

/** Waits until the overview has the peak of a file's first device, or this many bytes. */
export const showsPeak = (page: Page, of: string | number) =>
  expect
    .poll(() => numberOf(page, '[data-peak="allocated"]', 'data-bytes'))
    .toBe(typeof of === 'number' ? of : report(of).devices[0].peak_allocated_bytes);

export const panel = (page: Page) => page.getByRole('tabpanel');

export async function show(page: Page, view: View): Promise<void> {
  await page.getByRole('tab', { name: TITLES[view] }).click();
  await ready(page, view);
}

/** How to recognize a finished view, if its class and `aria-busy` do not suffice. */
export const READY: Partial<Record<View, string>> = {
  overview: '.overview[aria-busy="false"]',
  timeline: 'aside.details:is([data-selected], :has([data-span]))',
  state: '.state-view[aria-busy="false"][data-moment]',
  ranks: '.ranks-view[data-ranks]',
  segments: '.segments-view[data-segments], .panel-empty',
  allocations: '.allocations-view[aria-busy="false"], .panel-empty',
  steps: '.steps-view .steps-lines[aria-busy="false"], .panel-empty',
  compare: '.compare-view .growth[data-a], .panel-empty',
  whatif: '.whatif-view[data-settings], .panel-empty',
  source: '.source-view[aria-busy="false"]',
};

export const ready = (page: Page, view: View) =>
  page
    .locator('#panel')
    .locator(READY[view] ?? `.${view}-view:not([aria-busy="true"])`)
    .waitFor();

/** Returns a number from an attribute. */
export const numberOf = async (page: Page, selector: string, attribute: string): Promise<number> =>
  Number((await page.locator(selector).getAttribute(attribute)) ?? NaN);

/** Returns a table's rows as exact values, from the cells' titles. Long tables contain only the visible rows. */
export const tableRows = (page: Page, caption: string | RegExp): Promise<string[][]> =>
  page
    .getByRole('grid', { name: caption })
    .locator('tr[data-row]')
    .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.title)));

/** Parses `1,234 bytes`. */
export const exact = (text: string): number => Number(text.replace(/[,+]|bytes|\s/g, ''));

/** Returns the first two columns of a table of groups: names and bytes. */
export const bytesOfGroups = async (page: Page, caption: string): Promise<Map<string, number>> =>
  new Map((await tableRows(page, caption)).map(([name, bytes]) => [name!, exact(bytes!)]));

/** Returns the position of the timeline's plot in the window. */
export async function plotBox(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  return (await page.locator('.timeline-plot').boundingBox())!;
}
