// The State view: the request beside the holes, the lines that pin free memory, pools, and memory from before the recording.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { bytes, count } from '../src/text/units';
import { example, report } from './command';
import { bytesOfGroups, exact, legend, numberOf, ready, serving, show, state, tableRows, test } from './page';
import { IN_GRAPH_POOL, pooled, segmentsOnly } from './recordings';
import { axe, violations } from './axe';

const free = (page: Page) => page.getByRole('region', { name: 'Free memory' });
const hole = (page: Page) => page.getByRole('region', { name: 'Hole', exact: true });

/** Goes to a moment of the State view. */
async function at(page: Page, moment: number): Promise<void> {
  await page.evaluate((to) => (location.hash = `view=state&moment=${to}`), moment);
  await page.locator(`.state-view[aria-busy="false"][data-moment="${moment}"]`).waitFor();
}

test('the event list keeps its height from event to event, and shows the chosen one', async ({ open }) => {
  const page = await open(await serving(example('training.pickle.zst')));
  // The legend takes its room above once it is known.
  await legend(page).getByRole('button').first().waitFor();
  const list = page.getByRole('listbox', { name: /^Events/ });
  const heights = new Set<number>();
  for (const moment of [0, 1, 2756, 5252]) {
    await at(page, moment);
    await expect.poll(() => list.getByRole('option', { selected: true }).count()).toBe(moment === 0 ? 0 : 1);
    heights.add(await list.evaluate((box) => box.clientHeight));
  }
  expect([...heights]).toHaveLength(1);
});

test('the hole at an out of memory is one step from the overview', async ({ open }) => {
  const file = example('oom.pickle');
  const [oom] = report(file).devices[0].ooms;
  const page = await open(await serving(file), { before: axe });
  await show(page, 'overview');
  await page.getByRole('button', { name: 'Show the request beside the holes' }).click();
  await ready(page, 'state');
  // The largest usable hole is chosen, and both are drawn to one scale.
  const [tooSmall] = oom.unusable.filter(({ why }: { why: string }) => why === 'too_small');
  await hole(page)
    .and(page.locator(`[data-bytes="${tooSmall.largest_bytes}"]`))
    .waitFor();
  const scale = page.locator('.to-scale');
  const row = (kind: string) => scale.locator(`[data-kind="${kind}"]`);
  await expect.poll(() => numberOf(page, '.to-scale [data-kind="failed"]', 'data-bytes')).toBe(oom.requested_bytes);
  await expect.poll(() => numberOf(page, '.to-scale [data-kind="hole"]', 'data-bytes')).toBe(tooSmall.largest_bytes);
  await expect.poll(() => numberOf(page, '.to-scale [data-kind="device"]', 'data-bytes')).toBe(oom.device_free_bytes);
  const width = async (kind: string) => (await row(kind).locator('.to-scale-bar span').boundingBox())!.width;
  expect((await width('hole')) / (await width('failed'))).toBeCloseTo(tooSmall.largest_bytes / oom.requested_bytes, 1);
  expect(await violations(page)).toEqual([]);
});

test('page and command name the same lines that pin free memory', async ({ open }) => {
  const file = example('oom.pickle');
  const [oom] = report(file).devices[0].ooms;
  expect(oom.pinned.length).toBeGreaterThan(0);
  const page = await open(await serving(file));
  await at(page, oom.event + 1);
  const told = page.getByRole('list', { name: 'Lines that pin free memory' }).getByRole('listitem');
  const shown = await told.evaluateAll((all) => all.map((one) => Number((one as HTMLElement).dataset['bytes'])));
  expect(shown).toEqual(oom.pinned.slice(0, 5).map((pin: any) => pin.bytes));
  const first = (await told.first().textContent())!;
  const [pin] = oom.pinned;
  for (const text of [
    pin.key,
    bytes(pin.bytes),
    `${count(pin.holes)} holes`,
    `${count(pin.blocks)} blocks`,
    bytes(pin.joined_bytes),
  ]) {
    expect(first).toContain(text);
  }
  await expect.poll(() => free(page).textContent()).toContain(bytes(oom.pinned_bytes));
  // Its blocks are found in the map.
  await told.first().getByRole('button', { name: /^Find/ }).click();
  expect(pin.key).toContain((await state(page))['search'] ?? (await page.getByRole('searchbox').inputValue()));
});

test('a hole shows its size, its age and its neighbors', async ({ open }) => {
  const page = await open(await serving(pooled()));
  await at(page, 7);
  const holes = async () => (await tableRows(page, 'Holes')).map((row) => exact(row[0]!) / 2 ** 20);
  await expect.poll(holes).toEqual([10, 6, 4]);
  // With the keyboard: the rows choose their holes.
  await page.getByRole('grid', { name: 'Holes' }).locator('tr[data-row="0"]').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.locator(`[data-hole][aria-busy="false"][data-bytes="${4 << 20}"]`).waitFor();
  const text = (await hole(page).textContent())!;
  expect(text).toContain('after event 2');
  expect(text).toContain('Before the hole: a block of 8.00 MiB');
  expect(text).toContain('After the hole: a block of 2.00 MiB');
  expect(text).toContain('train.py');
  await expect.poll(() => state(page)).toHaveProperty('hole');
  // After the last hole of a segment is the segment's edge.
  await page.keyboard.press('ArrowUp');
  await page.locator(`[data-hole][aria-busy="false"][data-bytes="${6 << 20}"]`).waitFor();
  await expect.poll(() => hole(page).textContent()).toContain('After the hole: the edge of the segment');
});

test('a click on free memory in the map chooses the hole', async ({ open }) => {
  const page = await open(await serving(example('oom.pickle')));
  await at(page, 1653);
  const before = await hole(page).getAttribute('data-hole');
  const map = page.getByRole('application', { name: /^Segments and blocks/ });
  const box = (await map.boundingBox())!;
  // Some place at the end of a long line of segments is free: try the places in turn.
  await expect
    .poll(async () => {
      for (let x = 8; x < box.width - 30; x += 24) {
        await map.click({ position: { x, y: 36 } });
        const now = await hole(page).getAttribute('data-hole');
        if (now !== null && now !== before) return true;
      }
      return false;
    })
    .toBe(true);
  await hole(page).getByRole('button', { name: 'Clear' }).click();
  await page.locator(`[data-hole="${before}"]`).waitFor();
});

test('a served request is compared with the remaining holes', async ({ open }) => {
  const page = await open(await serving(pooled()));
  await at(page, 7);
  await expect.poll(() => numberOf(page, '.to-scale [data-kind="served"]', 'data-bytes')).toBe(2 << 20);
  await expect.poll(() => page.locator('.to-scale [data-kind="device"]').count()).toBe(0);
  // Only allocations and out-of-memory events have a request.
  await at(page, 4);
  await expect.poll(() => page.locator('.to-scale').count()).toBe(0);
});

test('the contents of a private pool by line are two steps away', async ({ open }) => {
  for (const view of ['state', 'segments'] as const) {
    const page = await open(await serving(pooled()), { before: axe });
    await show(page, view);
    const button = page.getByRole('list', { name: 'Pools' }).getByRole('button', { name: /private pool \(1, 0\)/ });
    await expect.poll(() => button.textContent()).toContain('20.00 MiB');
    await button.click();
    const contents = page.getByRole('region', { name: 'Contents of private pool (1, 0)' });
    await contents.getByText('10.00 MiB allocated of 20.00 MiB reserved').waitFor();
    await expect.poll(() => bytesOfGroups(page, 'Allocated in private pool (1, 0) by line')).toEqual(IN_GRAPH_POOL);
    await expect.poll(() => contents.textContent()).toContain('capture of a CUDA graph');
    await expect.poll(() => state(page)).toHaveProperty('pool', '1.0');
    // At another moment it holds less, except at its peak.
    await page.evaluate(() => (location.hash = `${location.hash}&moment=5`));
    await contents.getByRole('radio', { name: 'the shown moment' }).check({ force: true });
    await contents.getByText('6.00 MiB allocated of 20.00 MiB reserved after event 4').waitFor();
    await contents.getByRole('radio', { name: 'its peak' }).check({ force: true });
    await contents.getByText('10.00 MiB allocated of 20.00 MiB reserved after event 5').waitFor();
    expect(await violations(page)).toEqual([]);
  }
});

test('without private pools there are no outlines and no buttons', async ({ open }) => {
  const page = await open(await serving(example('oom.pickle')));
  await show(page, 'state');
  await expect.poll(() => page.getByRole('list', { name: 'Pools' }).count()).toBe(0);
});

test('memory live before recording began is marked', async ({ open }) => {
  const page = await open(await serving(pooled()));
  await at(page, 4);
  await page.locator('.map-legend').getByText('live before recording').waitFor();
  await open(await serving(example('oom.pickle'))).then(async (other) => {
    await show(other, 'state');
    await expect.poll(() => other.locator('.map-legend').getByText('live before recording').count()).toBe(0);
  });
});

test('a recording without history opens in State, and keeps a chosen view', async ({ open }) => {
  const page = await open(await serving(segmentsOnly()), { draws: false });
  await ready(page, 'state');
  await free(page).waitFor();
  await show(page, 'overview');
  await expect.poll(() => state(page).then((now) => now['view'])).toBe('overview');
  await page.reload();
  await ready(page, 'overview');
  // A recording with a history opens in the overview.
  const other = await open(await serving(example('leak.pickle')));
  await ready(other, 'overview');
});
