// Files that are dropped on the page.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example, report } from './command';
import { numberOf, servingAlone, show, state, test } from './page';
import { onlyServed } from './transport';

const LEAK = example('leak.pickle');
const OOM = example('oom.pickle');

interface Dropped {
  name: string;
  bytes: Buffer;
  /** So often; a page of memory is not copied for that. */
  times?: number;
}

/** Drags a file in and lets it go. */
async function drop(page: Page, { name, bytes, times = 1 }: Dropped): Promise<void> {
  const transfer = await page.evaluateHandle(
    ({ name, text, times }) => {
      const part = new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]);
      const transfer = new DataTransfer();
      transfer.items.add(
        new File(
          Array.from({ length: times }, () => part),
          name,
        ),
      );
      return transfer;
    },
    { name, text: bytes.toString('base64'), times },
  );
  await page.dispatchEvent('body', 'dragenter', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'dragover', { dataTransfer: transfer });
  await page.dispatchEvent('body', 'drop', { dataTransfer: transfer });
}

test('a page without a recording asks for one, and shows what is dropped', async ({ open }) => {
  const page = await open(await servingAlone(), { draws: false });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await drop(page, { name: 'leak.pickle', bytes: readFileSync(LEAK) });
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(report(LEAK).devices[0].peak_allocated_bytes);
  expect(await page.getByRole('combobox', { name: 'File' }).locator('option').allTextContents()).toEqual(['leak.pickle']);
});

test('a dropped file opens beside the others and can be compared', async ({ open }) => {
  const page = await open(`${await servingAlone(LEAK)}#view=timeline&range=100~300&selected=3`);
  await drop(page, { name: 'second.pickle', bytes: readFileSync(OOM) });
  const files = page.getByRole('combobox', { name: 'File' });
  await expect.poll(() => files.locator('option').allTextContents()).toEqual(['leak.pickle', 'second.pickle']);
  await expect.poll(() => files.inputValue()).toBe('1');
  await show(page, 'overview');
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(report(OOM).devices[0].peak_allocated_bytes);
  await show(page, 'compare');
  expect(await numberOf(page, '.growth', 'data-b')).toBe(report(LEAK).devices[0].peak_allocated_bytes);
});

test('the button opens files, too', async ({ open }) => {
  const page = await open(await servingAlone(), { draws: false });
  const chooser = page.waitForEvent('filechooser');
  await page
    .getByRole('button', { name: 'Open' })
    .or(page.getByRole('button', { name: 'Open a snapshot' }))
    .first()
    .click();
  await (await chooser).setFiles(OOM);
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  await expect
    .poll(() => numberOf(page, '[data-peak="reserved"]', 'data-bytes'))
    .toBe(report(OOM).devices[0].peak_reserved_bytes);
});

test('what is no recording is refused with the reason, and the page stays', async ({ open }) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of 4\d\d/ });
  await drop(page, { name: 'notes.txt', bytes: Buffer.from('These are notes, no recording.') });
  const alert = page.getByRole('alert');
  await expect.poll(() => alert.textContent()).toContain('notes.txt: ');
  await drop(page, { name: 'cut.pickle', bytes: readFileSync(LEAK).subarray(0, 5000) });
  await expect.poll(() => alert.textContent()).toContain('it is truncated');
  await alert.getByRole('button', { name: 'Dismiss' }).click();
  await expect.poll(() => alert.textContent()).toBe('');
  await show(page, 'state');
  expect(await numberOf(page, '.state-view', 'data-moment')).toBe(report(LEAK).devices[0].peak_event + 1);
  expect(await page.getByRole('combobox', { name: 'File' }).locator('option').count()).toBe(1);
});

test('a file that is too large is refused with a reason', async ({ open, skip }) => {
  onlyServed(skip, 'a limit for what is sent to it');
  const page = await open(await servingAlone(LEAK), { expected: /status of 413|ERR_/ });
  await drop(page, { name: 'huge.pickle', bytes: Buffer.alloc(1 << 22, 0x80), times: 257 });
  await expect.poll(() => page.getByRole('alert').textContent(), { timeout: 20_000 }).toMatch(/larger than 1\.00 GiB/);
});

test('a file that means far more than it holds is refused with a reason', async ({ open }) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of 422/ });
  // A string of 900 MiB in 4 MB: members of gzip that are unpacked one after the other.
  const member = gzipSync(Buffer.alloc(1 << 20, 'x'), { level: 1 });
  await drop(page, {
    name: 'bomb.json.gz',
    bytes: Buffer.concat([gzipSync('{"segments": ["'), ...Array.from({ length: 900 }, () => member)]),
  });
  const alert = page.getByRole('alert');
  await expect.poll(() => alert.textContent(), { timeout: 20_000 }).toMatch(/bomb\.json\.gz: .*of more than 16777216 bytes/);
  await show(page, 'state');
});

test('a file that is closed makes place for the others, and the last leaves a page without one', async ({ open }) => {
  const page = await open(await servingAlone(LEAK, OOM));
  const files = page.getByRole('combobox', { name: 'File' });
  await page.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect.poll(() => files.locator('option').allTextContents()).toEqual(['oom.pickle']);
  await show(page, 'overview');
  expect(await numberOf(page, '[data-peak="allocated"]', 'data-bytes')).toBe(report(OOM).devices[0].peak_allocated_bytes);
  await page.getByRole('button', { name: 'Close oom.pickle' }).click();
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await drop(page, { name: 'again.pickle', bytes: readFileSync(LEAK) });
  await expect.poll(() => files.locator('option').allTextContents()).toEqual(['again.pickle']);
});

test('a double click closes one file', async ({ open }) => {
  const page = await open(await servingAlone(LEAK, OOM));
  await page.route('**/close', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    await route.continue();
  });
  await page.getByRole('button', { name: 'Close leak.pickle' }).dblclick();
  const files = page.getByRole('combobox', { name: 'File' });
  await expect.poll(() => files.locator('option').allTextContents()).toEqual(['oom.pickle']);
  await expect.poll(async () => (await state(page))['file']).toBe('1');
  // The way back leads past what was closed.
  await page.goBack();
  await show(page, 'state');
  expect(await numberOf(page, '.state-view', 'data-moment')).toBe(report(OOM).devices[0].peak_event + 1);
  expect(await page.getByRole('alert').textContent()).toBe('');
  expect(await files.locator('option').allTextContents()).toEqual(['oom.pickle']);
});

test('a file that another page has closed says so, and closes here, too', async ({ open, skip }) => {
  onlyServed(skip, 'several pages');
  const url = await servingAlone(LEAK, OOM);
  const options = { expected: /status of 404/ };
  const [one, two] = [await open(url, options), await open(url, options)];
  await two.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect.poll(() => two.getByRole('combobox', { name: 'File' }).locator('option').count()).toBe(1);
  await one.getByRole('tab', { name: 'Moment' }).click();
  await one.getByText('it was closed').waitFor();
  await one.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect
    .poll(() => one.getByRole('combobox', { name: 'File' }).locator('option').allTextContents())
    .toEqual(['oom.pickle']);
  await show(one, 'moment');
  expect(await one.getByRole('alert').textContent()).toBe('');
});

test('text that is dragged over the page is no file', async ({ open }) => {
  const page = await open(await servingAlone(LEAK));
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    transfer.setData('text/plain', 'hello');
    for (const type of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }
  });
  expect(await page.locator('.drop').count()).toBe(0);
  expect(await page.getByRole('alert').textContent()).toBe('');
});
