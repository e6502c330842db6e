// Findings of the overview and their links: leaks, regions, markers; and the page without a recording.

import { expect } from 'vitest';
import { bytes } from '../src/text/units';
import { example, report } from './command';
import { exchanging, leaking, leakingOnOther, overlapping, stepping } from './recordings';
import { exact, numberOf, ready, serving, servingAlone, showsPeak, state, tableRows, test } from './page';

test("a leak's link finds the kept blocks, and no freed block of the line", async ({ open }) => {
  const file = leaking();
  const [leak] = report(file).devices[0].leaks;
  // The line allocates equally many blocks that are freed.
  expect(leak.allocations).toBeGreaterThan(leak.kept);
  const page = await open(await serving(file));
  await ready(page, 'overview');
  await page.locator('.finding-rows').getByRole('button', { name: leak.line.name }).click();
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-matches')).toBe(leak.kept);
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-bytes')).toBe(leak.kept_bytes);
  await expect.poll(() => state(page)).toMatchObject({ view: 'timeline', search: 'leak:1' });
  await page.reload();
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-matches')).toBe(leak.kept);
});

test('the leak of the example is shown with its growth', async ({ open }) => {
  const file = example('leak.pickle');
  const [leak] = report(file).devices[0].leaks;
  expect(leak.kept_bytes_by_then.at(-1)).toBe(leak.kept_bytes);
  const page = await open(await serving(file));
  await ready(page, 'overview');
  await expect
    .poll(() => page.locator('.leak-growth').first().getAttribute('aria-label'))
    .toContain('Kept, by tenths of the run');
});

test('a leak shows its bytes per step, if steps are known', async ({ open }) => {
  const file = example('leak.pickle');
  const [device] = report(file).devices;
  const [leak] = device.leaks;
  // Almost every step keeps one block of this size.
  expect(leak.kept_bytes_per_step * device.steps.steps.length).toBeGreaterThan(leak.kept_bytes * 0.9);
  const page = await open(await serving(file));
  await page.getByText(`${bytes(leak.kept_bytes_per_step)} a step (median)`).waitFor();
});

test('a leak on another GPU is mentioned on this one', async ({ open }) => {
  const file = leakingOnOther();
  const [, other] = report(file).devices;
  const page = await open(await serving(file));
  await ready(page, 'overview');
  await showsPeak(page, 800 << 20);
  await page.getByRole('heading', { name: /^GPU 1: Memory grows at one line$/ }).waitFor();
  await page.getByText(`${bytes(other.leaks[0].kept_bytes)} kept to the end`).waitFor();
  await page.getByRole('button', { name: 'Show GPU 1' }).click();
  await page.getByRole('heading', { name: 'Memory grows at one line' }).waitFor();
  await expect.poll(() => page.getByRole('heading', { name: 'GPU 1: ' }).count()).toBe(0);
});

test('buffers of collectives are listed as in the report, and lead to their allocations', async ({ open }) => {
  const file = exchanging();
  const { collectives } = report(file).devices[0];
  expect(collectives.map((one: any) => [one.operation, one.stream, one.bytes])).toEqual([
    ['all_reduce', 0, 25 << 20],
    ['all_gather', 7, 18 << 20],
  ]);
  const page = await open(await serving(file));
  const card = page.locator('.card', {
    has: page.getByRole('heading', { name: 'Buffers of collectives: 43.00 MiB at the peak' }),
  });
  const rows = card.locator('tbody tr');
  await expect.poll(() => rows.count()).toBe(2);
  const gathered = rows.filter({ hasText: 'all_gather' });
  await gathered.getByText('_fsdp_collectives.py:90 foreach_all_gather').waitFor();
  await gathered.getByText('stream 0x7').waitFor();
  const amounts = await gathered
    .locator('td[title$=" bytes"]')
    .evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title')));
  expect(amounts.map((amount) => exact(amount!))).toEqual([collectives[1].bytes, collectives[1].peak_bytes]);
  await card.getByText('The process group is not recorded').waitFor();
  await gathered.getByRole('button', { name: 'all_gather' }).click();
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-bytes')).toBe(collectives[1].bytes);
  // Other programs have none.
  const plain = await open(await serving(example('leak.pickle')));
  await ready(plain, 'overview');
  await expect.poll(() => plain.getByText('Buffers of collectives').count()).toBe(0);
});

test('a region leads to its run with the highest peak', async ({ open }) => {
  const file = stepping(8, 5);
  const [region] = report(file).devices[0].regions;
  const page = await open(await serving(file));
  await ready(page, 'overview');
  await page.getByRole('rowheader', { name: 'ProfilerStep' }).getByRole('button').click();
  const { first_event: first, end_event: end } = region.largest;
  await expect.poll(async () => (await state(page))['span']).toBe(`${first}.${end}`);
  expect(region.typical.peak_allocated_bytes).toBeLessThan(region.largest.peak_allocated_bytes);
});

test('markers are a table whose rows lead to their places', async ({ open }) => {
  const page = await open(await serving(overlapping()));
  await ready(page, 'overview');
  await expect.poll(async () => (await tableRows(page, 'Markers')).length).toBe(3);
  const rows = await tableRows(page, 'Markers');
  const MIB = 1 << 20;
  expect(rows.map(([kind, name, event, , bytes]) => [kind, name, event, bytes])).toEqual([
    ['region', 'load', '1', `${(4 * MIB).toLocaleString('en-US')} bytes`],
    ['region', 'compute', '2', `${(6 * MIB).toLocaleString('en-US')} bytes`],
    ['region', 'store', '3', `${(8 * MIB).toLocaleString('en-US')} bytes`],
  ]);
  await page.getByRole('grid', { name: 'Markers' }).getByText('compute').click();
  await expect.poll(async () => (await state(page))['span']).toBe('2.4');
});

test('without a recording, the page explains how to make one', async ({ open }) => {
  const page = await open(await servingAlone(), { draws: false, permissions: ['clipboard-read', 'clipboard-write'] });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await page.getByRole('button', { name: "Copy: PyTorch's own recorder" }).click();
  await page.getByText('Copied').waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('torch.cuda.memory._record_memory_history');
});
