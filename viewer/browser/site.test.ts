// The static site: the engine in the browser, without the command, and offline after the first visit.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';
import { axe, violations } from './axe';
import { BOMBS } from './bombs';
import { example } from './command';
import { drop } from './dropping';
import { VIEWS, drawn, fileNames, launchWithProfile, show, showsPeak, test, type Open, type OpenOptions } from './page';
import { known } from './recordings';
import { serveSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await serveSite();
});
afterAll(() => site.stop());

test.for(['oom.pickle', 'training.pickle.zst', 'leak.pickle'])('an example is one click away: %s', async (file, { open }) => {
  const page = await open(site.url, { draws: false });
  const titles: Record<string, string> = {
    'oom.pickle': 'Out of memory',
    'training.pickle.zst': 'Training',
    'leak.pickle': 'A leak',
  };
  await page.getByRole('button', { name: titles[file]! }).click();
  await drawn(page);
  await showsPeak(page, example(file));
  for (const view of VIEWS) await show(page, view);
});

/** Returns the page's requests from now on. */
function asked(page: Page): string[] {
  const all: string[] = [];
  page.on('request', (request) => all.push(request.url()));
  page.context().on('request', (request) => all.push(request.url()));
  return all;
}

/** Opens the site and waits until it is cached, including an example that warms up the engine. */
async function visit(open: Open, options: OpenOptions = {}): Promise<Page> {
  const page = await open(site.url, { draws: false, ...options });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await expect.poll(() => page.evaluate(() => navigator.serviceWorker.controller?.state)).toBe('activated');
  await expect.poll(() => page.workers().length).toBe(1);
  return page;
}

test('a dropped file is read in the page, without any request', async ({ open }) => {
  const page = await visit(open);
  const before = site.asked.length;
  const all = asked(page);
  const told = known(12);
  await drop(
    page,
    example('leak.pickle'),
    told.file,
    { name: 'known.json.gz', bytes: gzipSync(readFileSync(told.file)) },
    { name: 'own.vramscope', bytes: readFileSync(example('../fuzz/corpus/read/log3')) },
    example('training.pickle.zst'),
  );
  await drawn(page);
  for (const view of VIEWS) await show(page, view);
  expect(await fileNames(page)).toEqual(['leak.pickle', 'known.json', 'known.json.gz', 'own.vramscope', 'training.pickle.zst']);
  expect(site.asked.slice(before)).toEqual([]);
  // The worker's script comes from the cache.
  expect([...new Set(all)]).toEqual([`${site.url}worker.js`]);
});

test('after the first visit, a file is read offline', async ({ open }) => {
  const page = await visit(open);
  await page.context().setOffline(true);
  site.refuse = true;
  try {
    await page.reload();
    await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
    await drop(page, example('leak.pickle'));
    await drawn(page);
    for (const view of VIEWS) await show(page, view);
    await page.getByRole('button', { name: 'Close leak.pickle' }).click();
    await page.getByRole('button', { name: 'Out of memory' }).click();
    await page.getByRole('tab', { name: 'Overview' }).click();
    await showsPeak(page, example('oom.pickle'));
  } finally {
    site.refuse = false;
  }
});

test('it can be installed', async () => {
  const context = await launchWithProfile();
  try {
    const page = await context.newPage();
    await page.goto(site.url);
    await page.evaluate(() => navigator.serviceWorker.ready);
    const session = await context.newCDPSession(page);
    expect(await session.send('Page.getInstallabilityErrors')).toEqual({ installabilityErrors: [] });
    const { errors, manifest } = await session.send('Page.getAppManifest');
    expect(errors).toEqual([]);
    expect(manifest).toMatchObject({ name: 'vramscope', scope: site.url, startUrl: site.url, display: 'kStandalone' });
  } finally {
    await context.close();
  }
});

test('only its own scripts run, and they reach no other server', async ({ open }) => {
  const page = await visit(open, { expected: /Content Security Policy/ });
  const reached = await page.evaluate(async () => {
    const found: string[] = [];
    const script = document.createElement('script');
    script.textContent = 'globalThis.inlined = true';
    document.head.append(script);
    if ('inlined' in globalThis) found.push('an inline script');
    const button = document.createElement('button');
    button.setAttribute('onclick', 'globalThis.clicked = true');
    document.body.append(button);
    button.click();
    if ('clicked' in globalThis) found.push('an inline handler');
    // The test's own requests need not follow the page's rules.
    await new Promise((later) => setTimeout(later));
    try {
      found.push(new Function('return "text as code"')() as string);
    } catch {
      // Expected.
    }
    for (const address of ['https://localhost:9/', 'http://127.0.0.1:9/']) {
      const refused = new Promise((told) => document.addEventListener('securitypolicyviolation', told, { once: true }));
      await fetch(address).catch(() => {});
      await refused;
    }
    return found;
  });
  expect(reached).toEqual([]);
});

test.for(['light', 'dark'] as const)('its first page is read and used at any width, %s', async (colorScheme, { open }) => {
  const page = await visit(open, { colorScheme, before: axe });
  for (const [width, height] of [
    [1280, 800],
    [900, 700],
    [400, 800],
  ] as const) {
    await page.setViewportSize({ width, height });
    await page.getByText('Files that you open never leave this browser').waitFor();
    expect(await violations(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    for (const button of await page.locator('.examples button').all()) {
      const box = (await button.boundingBox())!;
      expect(box.x >= 0 && box.x + box.width <= width && box.y + box.height <= height).toBe(true);
    }
  }
});

test('a file that is not a recording is an error, and the page continues', async ({ open }) => {
  const page = await open(site.url, { draws: false });
  const files = page.locator('input[type=file]');
  const alert = page.getByRole('alert');
  await files.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('These are notes, no recording.') });
  await expect.poll(() => alert.textContent()).toContain('notes.txt: ');
  const cut = readFileSync(example('leak.pickle')).subarray(0, 5000);
  await files.setInputFiles({ name: 'cut.pickle', mimeType: '', buffer: cut });
  await expect.poll(() => alert.textContent()).toContain('it is truncated');
  await files.setInputFiles(example('leak.pickle'));
  await drawn(page);
  await showsPeak(page, example('leak.pickle'));
});

test('hostile and truncated files are errors with a sentence, and the next file opens', { timeout: 180_000 }, async ({
  open,
}) => {
  const page = await open(site.url, { draws: false });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  const alert = page.getByRole('alert');
  for (const [what, bytes, reason] of BOMBS) {
    await drop(page, { name: 'dropped', bytes });
    await expect.poll(() => alert.textContent(), { timeout: 60_000, message: what }).toMatch(reason);
    expect((await alert.textContent())!.length, what).toBeLessThan(400);
    await alert.getByRole('button', { name: 'Dismiss' }).click();
    await expect.poll(() => alert.textContent()).toBe('');
  }
  await drop(page, example('leak.pickle'));
  await drawn(page);
  await showsPeak(page, example('leak.pickle'));
});
