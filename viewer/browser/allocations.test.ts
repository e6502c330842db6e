// The allocation table, and further effects of a search: it filters live memory, zooms to a match, and marks matches too small to see.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { allocations } from './asking';
import { command, example, scratch } from './command';
import { answering, exact, numberOf, pair, redrawn, serving, show, state, tableRows, test } from './page';
import { known, write } from './recordings';
import { records, save } from './saving';
import { meddle } from './transport';

const TRAINING = example('training.pickle.zst');
const LEAK = example('leak.pickle');
const MIB = 1 << 20;

const rows = (page: Page) => page.locator('.allocations-view[aria-busy="false"]');
const waitForRows = (page: Page, count: number) =>
  page.locator(`.allocations-view[aria-busy="false"][data-rows="${count}"]`).waitFor();
/** Returns the texts of a column of the visible rows. */
const column = (page: Page, at: number): Promise<string[]> =>
  page
    .locator('.allocations-view [role=option]')
    .evaluateAll((all, at) => all.map((row) => row.children[at]?.getAttribute('title') ?? ''), at);

function cells(csv: string): Record<string, string>[] {
  const [head, ...body] = records(csv);
  return body.map((row) => Object.fromEntries(head!.map((name, i) => [name, row[i]!])));
}

test('rows are sorted by every column, and a row selects its allocation', async ({ open }) => {
  const all = await allocations(await answering(LEAK));
  const page = await open(`${await serving(LEAK)}#view=allocations`);
  await waitForRows(page, all.length);
  await expect.poll(() => numberOf(page, '.allocations-view', 'data-bytes')).toBe(all.reduce((sum, a) => sum + a.bytes, 0));
  const sizes = all.map((a) => a.bytes).sort((a, b) => b - a);
  const shown = (await column(page, 0)).map(exact);
  expect(shown.length).toBeGreaterThan(5);
  expect(shown).toEqual(sizes.slice(0, shown.length));
  const head = page.getByRole('group', { name: 'Sort by' });
  await head.getByRole('button', { name: 'Size, descending' }).click();
  await head.getByRole('button', { name: 'Size, ascending' }).waitFor();
  await expect.poll(async () => exact((await column(page, 0))[0]!)).toBe(sizes.at(-1));
  await head.getByRole('button', { name: 'Line' }).press('Enter');
  await head.getByRole('button', { name: 'Line, ascending' }).waitFor();
  await expect.poll(() => state(page)).toMatchObject({ sort: 'line', order: 'ascending' });
  // Arrow keys walk the list; distant rows are read when reached.
  const list = page.getByRole('listbox', { name: /^Allocations/ });
  await page.locator('.allocations-view [role=option]').nth(2).click();
  await page.locator('.selection-bar[data-selected]').waitFor();
  const first = await numberOf(page, '.selection-bar', 'data-selected');
  await list.press('ArrowDown');
  await expect.poll(() => numberOf(page, '.selection-bar', 'data-selected')).not.toBe(first);
  await list.press('End');
  await page.locator(`#allocation-${all.length - 1}[aria-selected="true"]`).waitFor();
  await expect.poll(() => page.locator(`#allocation-${all.length - 1}`).textContent()).toContain('B');
});

test('saved tables match vramscope export', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=allocations&sort=lifetime_us`);
  await rows(page).waitFor();
  const saveAs = async (form: string) =>
    (await save(page, page.getByRole('button', { name: 'Save allocations' }), form)).bytes.toString();
  const saved = cells(await saveAs('Table as CSV'));
  const out = join(scratch(), 'allocations.csv');
  execFileSync(command, ['export', TRAINING, '--what', 'allocations', '--device', '0', '-o', out], { stdio: 'pipe' });
  const exported = new Map(cells(readFileSync(out, 'utf8')).map((row) => [row['allocation'], row]));
  expect(saved.length).toBe(exported.size);
  const names = Object.keys(saved[0]!).filter((name) => name in [...exported.values()][0]!);
  expect(names.length).toBeGreaterThan(12);
  for (const row of saved) {
    const same = exported.get(row['allocation'])!;
    // The page also infers pools from the segments of that time.
    const told = names.filter((name) => name !== 'pool' || same[name] !== '');
    for (const name of told) expect(row[name], `${name} of ${row['allocation']}`).toBe(same[name]);
  }
  const times = saved.map((row) => row['lifetime_us']).filter((us) => us !== '');
  expect(times.map(Number)).toEqual(times.map(Number).sort((a, b) => b - a));
  const json = JSON.parse(await saveAs('Table as JSON')) as Record<string, unknown>[];
  expect(json.map((row) => String(row['allocation']))).toEqual(saved.map((row) => row['allocation']));
});

test('the search, the moment and the interval filter the rows', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=allocations&moment=20&span=8.40`);
  await waitForRows(page, made.length);
  await page.getByRole('searchbox').fill('layer1 freed:never');
  // Even allocations are kept, and each line has only odd or only even numbers.
  await waitForRows(page, 0);
  await page.getByRole('searchbox').fill('layer2 freed:never');
  await waitForRows(page, made.filter((m) => m.line === 12).length);
  await page.getByRole('searchbox').fill('');
  await waitForRows(page, made.length);
  await page.getByText('Live after event 19').click();
  const engine = await answering(file);
  const all = await allocations(engine);
  await waitForRows(page, all.filter((a) => a.from <= 20 && (a.freed === null || a.freed > 20)).length);
  await page.getByText('Allocated in the interval').click();
  await waitForRows(page, all.filter((a) => a.from > 8 && a.from <= 40).length);
  await expect.poll(async () => (await state(page))['among']).toBe('span');
});

test('a search filters live memory, with shares of the matches and of the total', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=moment&moment=90&search=layer2`);
  const live = made.filter((_, i) => i % 2 === 0);
  const total = live.reduce((sum, m) => sum + m.bytes, 0);
  const found = live.filter((m) => m.line === 12).reduce((sum, m) => sum + m.bytes, 0);
  await page.locator(`.moment-view[data-total="${total}"][data-found="${found}"]`).waitFor();
  const percent = `${((found * 100) / total).toFixed(1)}%`;
  const text = `${(found / MIB).toFixed(2)} MiB of ${(total / MIB).toFixed(2)} MiB match, ${percent}`;
  await page.getByText(text).waitFor();
  // Columns: line, allocated, share of matches, share of all.
  const table = await tableRows(page, 'Allocated by line');
  expect(table.map((row) => exact(row[1]!))).toEqual([found]);
  expect(table[0]![2]).toBe(`${found.toLocaleString('en-US')} of ${found.toLocaleString('en-US')} bytes`);
  expect(table[0]![3]).toBe(`${found.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} bytes`);
  await page.getByLabel('Call tree: arrows').press('ArrowDown');
  await expect.poll(() => page.locator('.flame [aria-live]').textContent()).toContain(`of all ${percent}`);
  await page.getByLabel('Only matches').uncheck();
  await expect.poll(async () => (await tableRows(page, 'Allocated by line')).length).toBe(2);
  await expect.poll(async () => (await state(page))['matches']).toBe('marked');
});

/** One large block, with small blocks that are allocated and freed on top of it. */
function specks(): string {
  const base = 0x7f0000000000;
  const entry = (action: string, at: number, size: number, name: string) => ({
    action,
    addr: base + at,
    size,
    stream: 0,
    frames: [{ name, filename: '/home/user/train.py', line: 7 }],
  });
  const trace = [entry('segment_alloc', 0, 1024 * MIB, 'large'), entry('alloc', 0, 1000 * MIB, 'large')];
  for (let i = 0; i < 3000; i += 1) {
    const at = 1000 * MIB + (i % 100) * 4096;
    if (i % 1000 === 500)
      trace.push(
        entry('alloc', at, 512, 'small'),
        entry('free_requested', at, 512, 'small'),
        entry('free_completed', at, 512, 'small'),
      );
    else
      trace.push(
        entry('alloc', at, 1024, 'other'),
        entry('free_requested', at, 1024, 'other'),
        entry('free_completed', at, 1024, 'other'),
      );
  }
  return write('specks.json', { segments: [], device_traces: [trace] });
}

test('matches and selections too small to see have a mark', async ({ open }) => {
  const page = await open(`${await serving(specks())}#view=timeline`, { expected: /getImageData/ });
  const marks = () =>
    page.locator('.timeline-over').evaluate((canvas: HTMLCanvasElement) => {
      const plot = document.querySelector('.timeline-plot')!.getBoundingClientRect();
      const top = canvas.getBoundingClientRect().top;
      const row = Math.round((plot.bottom - top - 2) * devicePixelRatio);
      const { data } = canvas.getContext('2d')!.getImageData(0, row, canvas.width, 1);
      // Colored pixels with gaps between them.
      let groups = 0;
      for (let x = 1; x < canvas.width; x += 1) if (data[4 * x + 3] === 255 && data[4 * x - 1] !== 255) groups += 1;
      return groups;
    });
  const before = await marks();
  await page.getByRole('searchbox').fill('small');
  await page.locator('#timeline[data-specks="3"]').waitFor();
  await expect.poll(marks).toBe(before + 3);
  await page.getByRole('searchbox').fill('large');
  await page.locator('#timeline[data-specks="0"]').waitFor();
  await expect.poll(marks).toBe(before);
  await page.getByRole('searchbox').fill('small');
  await page.getByRole('searchbox').press('Enter');
  await page.locator('aside[data-selected]').waitFor();
  // Alone it is large. Escape clears the search and the selection, but keeps the zoom.
  await page.locator('#timeline[data-specks="0"]').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('0');
  await page.locator('#timeline[data-specks="3"]').waitFor();
});

const ENTER =
  'Enter shows a match alone, Escape leaves the search and clears it, Back undoes each: told %d ms late where it lies';
test.for([0, 700])(ENTER, async (delay, { open }) => {
  const { file } = known(30);
  const page = await open(`${await serving(file)}#view=timeline&matches=marked`);
  await meddle(page, { kind: 'place', delay });
  const box = page.getByRole('searchbox');
  await box.fill('layer1');
  await page.locator('[data-matches]').waitFor();
  await redrawn(page, () => box.press('Enter'));
  await page.locator('aside[data-selected]').waitFor();
  await expect.poll(async () => (await state(page))['bytes']).toBeDefined();
  const { range, bytes, selected } = await state(page);
  const allocation = (await allocations(await answering(file)))[Number(selected)]!;
  const [[from, to], [low, high]] = [pair(range), pair(bytes)];
  expect(from).toBeLessThanOrEqual(allocation.from);
  expect(to).toBeGreaterThanOrEqual(allocation.to!);
  // It was at the top of the stack when it was allocated.
  expect(low).toBeLessThanOrEqual(allocation.total - allocation.bytes);
  expect(high).toBeGreaterThanOrEqual(allocation.total);
  expect(high - low).toBeLessThan(2 * allocation.bytes);

  await page.keyboard.press('Escape');
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('timeline');
  await expect.poll(() => box.inputValue()).toBe('layer1');
  await page.keyboard.press('Escape');
  await expect.poll(async () => (await state(page))['selected']).toBeUndefined();
  await page.keyboard.press('Escape');
  await expect.poll(async () => (await state(page))['search']).toBeUndefined();
  await expect.poll(() => box.inputValue()).toBe('');

  await page.goBack();
  await expect.poll(async () => (await state(page))['selected']).toBe(selected);
  await page.goBack();
  await expect.poll(async () => Object.keys(await state(page))).not.toContain('range');
  expect(await state(page)).not.toHaveProperty('selected');
});

test('repeated wheel zooms share one history entry', async ({ open }) => {
  const page = await open(`${await serving(LEAK)}#view=timeline`);
  const entries = await page.evaluate(() => history.length);
  for (let i = 0; i < 6; i += 1) {
    await page.keyboard.press('+');
    await page.waitForTimeout(250);
  }
  await expect.poll(async () => (await state(page))['range']).toBeDefined();
  expect(await page.evaluate(() => history.length)).toBe(entries + 1);
  await page.goBack();
  await expect.poll(async () => (await state(page))['range']).toBeUndefined();
  await show(page, 'allocations');
});
