// Each view shows the recording: its numbers match `report --json` and `replay --json`.

import type { Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import { GROUPS } from '../src/state/grouping';
import { bytes, capital, count } from '../src/text/units';
import { example, replay, report } from './command';
import { exact, legend, numberOf, panel, serving, show, tableRows, test } from './page';

const KINDS = ['requested', 'allocated', 'active', 'reserved'];
const NAMES = ['leak.pickle', 'oom.pickle', 'training.pickle.zst'];

const card = (page: Page, title: string | RegExp) =>
  page.locator('.card').filter({ has: page.getByRole('heading', { name: title }) });

/** Sums the bytes of a table's column. */
const column = async (page: Page, caption: string | RegExp, at: number) =>
  (await tableRows(page, caption)).map((row) => exact(row[at]!));

const sum = (all: number[]) => all.reduce((a, b) => a + b, 0);

describe.each(NAMES)('%s', (name) => {
  const file = example(name);
  const told = report(file).devices[0];

  test('the overview shows peaks, ends, holders and findings', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'overview');
    for (const kind of KINDS) {
      await expect.poll(() => numberOf(page, `[data-peak="${kind}"]`, 'data-bytes')).toBe(told[`peak_${kind}_bytes`]);
      await expect.poll(() => numberOf(page, `[data-end="${kind}"]`, 'data-bytes')).toBe(told[`end_${kind}_bytes`]);
    }
    const holders = card(page, /^Holders of/).locator('tbody tr');
    await expect.poll(() => holders.count()).toBe(Math.min(told.holders_at_peak.length, 8));
    expect(await holders.locator('[title]').evaluateAll((cells) => cells.map((c) => c.getAttribute('title')))).toEqual(
      told.holders_at_peak.slice(0, 8).map((h: any) => `${count(h.bytes)} bytes`),
    );
    await expect.poll(() => card(page, /^Out of memory/).count()).toBe(Math.min(told.ooms.length, 1));
    for (const oom of told.ooms.slice(0, 1)) {
      const text = (await card(page, /^Out of memory/).textContent())!;
      for (const n of [oom.requested_bytes, oom.allocated_bytes, oom.reserved_bytes, oom.reserved_unused_bytes]) {
        expect(text).toContain(bytes(n));
      }
      expect(text).toContain(`event ${count(oom.event)}`);
      if (told.best_setting) expect(text).toContain(told.best_setting.conf);
    }
    const leaks = card(page, /^(Memory grows|Leak likely) at/);
    await expect.poll(() => leaks.locator('li').count()).toBe(told.leaks.length);
    for (const [i, leak] of told.leaks.entries()) {
      await expect
        .poll(() => leaks.locator('li').nth(i).textContent())
        .toContain(`${count(leak.kept)} of ${count(leak.allocations)} allocations kept to the end: ${bytes(leak.kept_bytes)}`);
    }
    const regions = card(page, 'Annotated regions').locator('tbody th');
    await expect.poll(() => regions.allTextContents()).toEqual(told.regions.map((r: any) => r.name));
    const fragmentation = card(page, 'Fragmentation').locator('td');
    const parts = ['internal_bytes', 'external_bytes', 'whole_segments_bytes'];
    const expected = parts.flatMap((part) => [told.fragmentation.at_peak[part], told.fragmentation.at_end[part]]);
    const titles = await fragmentation.evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title')!));
    expect(titles.slice(0, 6).map(exact)).toEqual(expected);
    await expect.poll(() => card(page, told.quality.exact ? 'The numbers are exact' : /not be exact/).count()).toBe(1);
  });

  test('the timeline states its peak', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'timeline');
    for (const kind of ['allocated', 'requested', 'active', 'reserved']) {
      await page.getByRole('combobox', { name: 'Bytes' }).selectOption(kind);
      await page.getByRole('img', { name: `at most ${bytes(told[`peak_${kind}_bytes`])} ${kind},` }).waitFor();
    }
  });

  test('the state shows the counters of any moment', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'state');
    for (const event of [told.peak_event, 0, Math.floor(told.events / 3), told.events - 1]) {
      const { at } = report(file, '--at', String(event)).devices[0];
      await page.evaluate((to) => (location.hash = `view=state&moment=${to}`), event + 1);
      const view = page.locator(`.state-view[data-moment="${event + 1}"]`);
      await view.waitFor();
      const data = await view.evaluate((panel) => ({ ...panel.dataset }));
      for (const kind of KINDS) expect(Number(data[kind])).toBe(at[`${kind}_bytes`]);
      const counters = await view.locator('.counter').evaluateAll((all) => all.map((c) => (c as HTMLElement).title));
      expect(counters.map(exact)).toEqual(KINDS.map((kind) => at[`${kind}_bytes`]));
      const row = view.getByRole('option', { selected: true });
      await expect.poll(() => row.textContent()).toMatch(new RegExp(`^${count(event)}[^0-9]`));
    }
  });

  test('the segments match the reserved ranges', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'segments');
    const { recorded } = replay(file).devices[0];
    const rows = await tableRows(page, 'Reserved ranges');
    await expect.poll(() => numberOf(page, '.segments-view', 'data-segments')).toBe(rows.length);
    expect(rows.length).toBe(recorded.segments_allocated);
    const kept = rows.filter((row) => row[6] === '–');
    expect(rows.length - kept.length).toBe(recorded.segments_freed);
    expect(sum(kept.map((row) => exact(row[1]!)))).toBe(told.end_reserved_bytes);
    expect(await column(page, 'Peaks of pools', 2)).toHaveLength(told.pools.length);
  });

  test('the moment adds up to the peak, by every grouping', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'moment');
    await expect.poll(() => numberOf(page, '.moment-view', 'data-total')).toBe(told.peak_allocated_bytes);
    for (const by of GROUPS) {
      await page.getByRole('combobox', { name: 'Group by' }).selectOption({ label: capital(by) });
      await page.getByRole('grid', { name: `Allocated by ${by}` }).waitFor();
      const shown = await column(page, `Allocated by ${by}`, 1);
      expect(sum(shown)).toBe(told.peak_allocated_bytes);
      const { holders_at_peak } = report(file, '--by', by).devices[0];
      expect(shown).toEqual(holders_at_peak.map((h: any) => h.bytes));
    }
  });

  test('what-if shows every tried setting, best first', async ({ open }) => {
    const page = await open(await serving(file));
    await show(page, 'whatif');
    const { what_if, floors } = replay(file).devices[0];
    await expect.poll(() => numberOf(page, '.whatif-view', 'data-settings')).toBe(what_if.length);
    expect(await column(page, /^Settings/, 1)).toEqual(what_if.map((row: any) => row.peak_reserved_bytes));
    const side = page.getByRole('region', { name: 'Lower bounds' });
    expect(await side.locator('[title]').evaluateAll((all) => all.map((one) => (one as HTMLElement).title))).toEqual(
      [floors.active_bytes, floors.packed_bytes].map((n) => `${count(n)} bytes`),
    );
    // A chosen setting has a named line in the timeline, and keeps it in other views.
    const row = page.getByRole('grid', { name: /^Settings/ }).locator('tr[data-row="1"]');
    await row.click();
    await legend(page).getByText('reserved with').waitFor();
    await show(page, 'timeline');
    await expect.poll(() => legend(page).getByText('reserved with').count()).toBe(1);
  });
});

test('two moments are compared', async ({ open }) => {
  const file = example('oom.pickle');
  const told = report(file).devices[0];
  const page = await open(await serving(file));
  await show(page, 'moment');
  const view = panel(page);
  await view.getByRole('button', { name: 'the start' }).click();
  await view.locator('[data-against="0"]').waitFor();
  expect(sum(await column(page, /^Change by/, 1))).toBe(told.peak_allocated_bytes - told.preexisting_bytes);
  await view.getByRole('button', { name: 'Swap the moments' }).click();
  await view.locator(`[data-moment="0"][data-against="${told.peak_event + 1}"]`).waitFor();
  // The order of time stays.
  expect(sum(await column(page, /^Change by/, 1))).toBe(told.peak_allocated_bytes - told.preexisting_bytes);
  await view.getByRole('button', { name: 'Stop comparing' }).click();
  await expect.poll(() => view.locator('[data-against]').count()).toBe(0);
});
