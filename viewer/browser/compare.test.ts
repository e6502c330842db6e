// Several files: chosen, and compared side by side.

import { expect } from 'vitest';
import { bytes } from '../src/text/units';
import { diff, example, replay, report, tagged } from './command';
import { stepping } from './recordings';
import { exact, fileMenu, numberOf, serving, show, showsPeak, state, tableRows, test } from './page';

const [A, B] = [example('leak.pickle'), example('oom.pickle')];
const [a, b] = [report(A).devices[0], report(B).devices[0]];

test('both recordings are shown, with growth, peaks and settings', async ({ open }) => {
  const page = await open(`${await serving(A, B)}#way=moments`);
  await show(page, 'compare');
  await expect
    .poll(() => page.locator('.small-title').allTextContents())
    .toEqual([expect.stringContaining('leak.pickle'), expect.stringContaining('oom.pickle')]);
  await expect.poll(() => numberOf(page, '.growth', 'data-a')).toBe(a.peak_allocated_bytes);
  await expect.poll(() => numberOf(page, '.growth', 'data-b')).toBe(b.peak_allocated_bytes);
  const rows = await tableRows(page, /^Allocated by line/);
  const column = (at: number) => rows.map((row) => exact(row[at]!)).reduce((x, y) => x + y, 0);
  expect([column(2), column(3), column(1)]).toEqual([
    a.peak_allocated_bytes,
    b.peak_allocated_bytes,
    b.peak_allocated_bytes - a.peak_allocated_bytes,
  ]);
  const peaks = await tableRows(page, 'Peaks');
  expect(peaks.map((row) => [row[0], exact(row[1]!), exact(row[2]!)])).toEqual(
    ['requested', 'allocated', 'active', 'reserved'].map((kind) => [kind, a[`peak_${kind}_bytes`], b[`peak_${kind}_bytes`]]),
  );
  const settings = await tableRows(page, 'Settings and facts');
  expect(settings.length).toBeGreaterThan(3);
  expect(settings.map((row) => row[3])).toEqual([...settings.map((row) => row[3])].sort().reverse());
  for (const row of settings) expect(row[3]).toBe(row[1] === row[2] ? 'no' : 'yes');
});

const [BASE, BATCH] = [tagged('base'), tagged('batch')];

test('each line is compared at its own peak, as by the command', async ({ open }) => {
  const page = await open(await serving(BASE, BATCH));
  await show(page, 'compare');
  await page.locator('.growth[data-way="highest"]').waitFor();
  const [device] = diff(BASE, BATCH).devices;
  const rows = await tableRows(page, 'Peak of each line');
  const told = (line: any) => [line.bytes.a, line.bytes.b, line.difference_bytes];
  expect(rows.map((row) => [exact(row[2]!), exact(row[3]!), exact(row[1]!)])).toEqual(device.highest_lines.map(told));
  const event = (n: number | null) => (n === null ? '–' : `event ${n.toLocaleString('en-US')}`);
  for (const [i, { at_event }] of device.highest_lines.entries()) {
    expect([event(at_event.a), 'the end', 'the start']).toContain(rows[i]![4]);
    expect([event(at_event.b), 'the end', 'the start']).toContain(rows[i]![5]);
  }
  // Choosing a moment in one timeline compares both recordings at moments.
  await page.getByRole('slider', { name: /tagged-base/ }).press('PageUp');
  await page.getByRole('grid', { name: 'Allocated by line' }).waitFor();
  await page
    .getByRole('group', { name: 'Compare', exact: true })
    .getByRole('radio', { name: 'Each at its peak' })
    .check({ force: true });
  await page.locator('.growth[data-way="highest"]').waitFor();
});

test('steps of both are aligned', async ({ open }) => {
  const [small, large] = [stepping(4), stepping(6, 2)];
  const page = await open(await serving(small, large));
  await show(page, 'compare');
  await page.getByRole('combobox', { name: 'Part' }).selectOption({ label: 'a step' });
  const most = async () => {
    const rows = await tableRows(page, 'Peak of each line');
    return Object.fromEntries(
      rows.map((row) => [/ (\w+)$/.exec(row[0]!)![1]!, [exact(row[2]!), exact(row[3]!)].map((n) => n / 2 ** 20)]),
    );
  };
  // The fourth step, the last that both have; the large one is the third step of the second recording.
  await page.locator('.growth[data-way="highest"]').waitFor();
  await expect.poll(async () => (await state(page))['part']).toBe('4.4.');
  await expect.poll(async () => (await most())['backward']).toEqual([32, 32]);
  await page.getByRole('spinbutton', { name: 'step of B' }).fill('3');
  await page.getByRole('spinbutton', { name: 'step of B' }).press('Enter');
  await expect.poll(async () => (await most())['backward']).toEqual([32, 64]);
  expect(await most()).toMatchObject({ forward: [16, 16], prepare: [8, 8] });
  const told = diff(small, large, '--at-step', '3').devices[0].highest_lines;
  expect(told.find((line: any) => line.key.includes('backward')).bytes).toEqual({ a: 32 * 2 ** 20, b: 64 * 2 ** 20 });
});

test("the changes match the command's", async ({ open }) => {
  const device = diff(BASE, BATCH).devices[0];
  const [first] = device.what_changed;
  const page = await open(await serving(BASE, BATCH));
  await show(page, 'compare');
  const items = page.locator('.what-changed ol > li');
  await items.first().waitFor();
  await expect.poll(() => items.first().getAttribute('data-kind')).toBe('scaled');
  expect(Number(await items.first().getAttribute('data-bytes'))).toBe(first.difference_bytes);
  await expect.poll(() => items.first().textContent()).toContain(first.text);
  const rows = await tableRows(page, 'Categories at the peaks');
  expect(rows.map((row) => [row[0], exact(row[1]!), exact(row[2]!)]).sort()).toEqual(
    device.categories
      .map((of: { category: string; bytes: { a: number; b: number } }) => [of.category, of.bytes.a, of.bytes.b])
      .sort(),
  );
});

test('the changes at the peak of a step are those of --at-step', async ({ open }) => {
  const page = await open(await serving(BASE, BATCH));
  await show(page, 'compare');
  const step = page.getByRole('spinbutton', { name: 'At the peaks of step', exact: true });
  await step.fill('2');
  await step.press('Enter');
  const { what_changed } = diff(BASE, BATCH, '--at-step', '2').devices[0];
  await expect.poll(async () => page.locator('.what-changed > p').textContent()).toContain('At the peak of step 2');
  const [first] = what_changed;
  const items = page.locator('.what-changed ol > li');
  expect(Number(await items.first().getAttribute('data-bytes'))).toBe(first.difference_bytes);
});

test('moments of both are chosen independently', async ({ open }) => {
  const page = await open(`${await serving(A, B)}#view=compare`);
  await page.locator('.growth').waitFor();
  const second = page.getByRole('slider', { name: /oom\.pickle/ });
  await second.focus();
  await page.keyboard.press('PageUp');
  const { at } = report(B, '--at', String(b.peak_event - 100)).devices[0];
  await page.locator(`.growth[data-a="${a.peak_allocated_bytes}"][data-b="${at.allocated_bytes}"]`).waitFor();
  const first = page.getByRole('slider', { name: /leak\.pickle/ });
  // Its picture arrives a moment later.
  await expect
    .poll(async () => {
      await first.click({ position: { x: 500, y: 30 } });
      return (await state(page))['moment'];
    })
    .toBeDefined();
  const moment = Number((await state(page))['moment']);
  const told = report(A, '--at', String(moment - 1)).devices[0].at;
  await page.locator(`.growth[data-a="${told.allocated_bytes}"][data-b="${at.allocated_bytes}"]`).waitFor();
  await page.getByRole('button', { name: 'Show both at their peaks' }).click();
  await page.locator(`.growth[data-a="${a.peak_allocated_bytes}"][data-b="${b.peak_allocated_bytes}"]`).waitFor();
});

test('another file can be chosen in every view', async ({ open }) => {
  const page = await open(await serving(A, B));
  await fileMenu(page).selectOption('1');
  await showsPeak(page, b.peak_allocated_bytes);
  await page.getByRole('img', { name: `at most ${bytes(b.peak_allocated_bytes)} allocated` }).waitFor();
  await show(page, 'moment');
  await expect.poll(() => numberOf(page, '.moment-view', 'data-total')).toBe(b.peak_allocated_bytes);
  await show(page, 'whatif');
  await page.locator(`.whatif-view[data-settings="${replay(B).devices[0].what_if.length}"]`).waitFor();
  await show(page, 'compare');
  await expect.poll(() => page.locator('.compare-view').getAttribute('data-other')).toBe('0.0');
  await show(page, 'segments');
  await fileMenu(page).selectOption('0');
  await page.locator('.segments-view[data-segments="11"]').waitFor();
});

test('a single file explains how to compare', async ({ open }) => {
  const page = await open(`${await serving(A)}#view=compare`);
  await page.getByRole('heading', { name: 'There is nothing to compare with yet.' }).waitFor();
});
