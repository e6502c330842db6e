// The static site: the engine in the browser, without the command; after the first visit without a network, too.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { extname, join, normalize, resolve } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { example, report, scratch } from './command';
import { VIEWS, numberOf, show, test } from './page';

const KINDS: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.webmanifest': 'application/manifest+json',
};

let server: Server;
let site: string;

beforeAll(async () => {
  const folder = scratch();
  execFileSync('node', [resolve(import.meta.dirname, '../../site/build.mjs'), folder]);
  // A server of files as simple as they come, with the site below a path; it calls what it does not know bytes.
  server = createServer((request, response) => {
    const path = normalize(new URL(request.url!, 'http://site').pathname.replace(/^\/some\/where\//, ''));
    try {
      const bytes = readFileSync(join(folder, path === '.' || path === '/' ? 'index.html' : path));
      response.setHeader('content-type', KINDS[extname(path) || '.html'] ?? 'application/octet-stream');
      response.end(bytes);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  site = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/some/where/`;
});
afterAll(() => server.close());

const peak = (file: string) => report(example(file)).devices[0].peak_allocated_bytes;

test.for(['oom.pickle', 'training.pickle.zst', 'leak.pickle'])('an example is one click away: %s', async (file, { open }) => {
  const page = await open(site, { draws: false });
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
  const page = await open(site, { draws: false });
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
  const page = await open(site, { draws: false });
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
  const page = await open(site, { draws: false });
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.context().setOffline(true);
  await page.reload();
  await page.getByRole('button', { name: 'Out of memory' }).click();
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(peak('oom.pickle'));
  for (const view of VIEWS) await show(page, view);
});
