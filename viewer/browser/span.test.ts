// The interval: choosing, showing and clearing it.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';

import { example, report } from './command';
import { answering, drawn, exact, plotBox, redrawn, serving, show, state, test } from './page';
import { segmentsOnly } from './recordings';

const TRAINING = example('training.pickle.zst');
const events = 5252;

const spanOf = async (page: Page) => (await state(page))['span'];
const drag = async (page: Page, from: [number, number], to: [number, number]) => {
  await page.mouse.move(...from);
  await page.mouse.down();
  await page.mouse.move(...to, { steps: 4 });
  await page.mouse.up();
};

test('Shift and dragging choose an interval, and so does dragging along the axis', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  const box = await plotBox(page);
  const at = (share: number) => box.x + share * box.width;
  // The effect of event n is visible from moment n + 1 on.
  const moment = (share: number) => Math.round(share * (events + 1) - 1);
  const near = async (begin: number, end: number) => {
    await expect.poll(() => spanOf(page)).toBeDefined();
    const [from, to] = (await spanOf(page))!.split('.').map(Number);
    // A pixel covers about five events.
    expect(Math.abs(from! - moment(begin))).toBeLessThanOrEqual(6);
    expect(Math.abs(to! - moment(end))).toBeLessThanOrEqual(6);
  };
  await page.keyboard.down('Shift');
  await drag(page, [at(0.2), box.y + 50], [at(0.4), box.y + 70]);
  await page.keyboard.up('Shift');
  await near(0.2, 0.4);
  expect((await state(page))['range']).toBeUndefined();
  await drag(page, [at(0.8), box.y + box.height + 10], [at(0.6), box.y + box.height + 12]);
  await expect.poll(async () => Number((await spanOf(page))!.split('.')[0]) > 3000).toBe(true);
  await near(0.6, 0.8);
  // Dragging beyond the recording stops at its ends.
  await drag(page, [at(0.5), box.y + box.height + 10], [at(1) + 15, box.y + box.height + 12]);
  await expect.poll(async () => (await spanOf(page))!.split('.')[1]).toBe(String(events));
  await page.keyboard.press('Escape');
  await expect.poll(() => spanOf(page)).toBeUndefined();
});

test('brackets set its start and its end at the moment, in every view', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment&moment=1000`);
  await page.keyboard.press('[');
  await expect.poll(() => spanOf(page)).toBe(`1000.${events}`);
  await page.keyboard.press('Shift+ArrowDown');
  await expect.poll(async () => (await state(page))['moment']).toBe('1100');
  await page.keyboard.press(']');
  await expect.poll(() => spanOf(page)).toBe('1000.1100');
  await page.keyboard.press('Shift+ArrowUp');
  await page.keyboard.press('Shift+ArrowUp');
  await expect.poll(async () => (await state(page))['moment']).toBe('900');
  // If the start is after the end, the interval begins with the recording.
  await page.keyboard.press(']');
  await expect.poll(() => spanOf(page)).toBe('0.900');
  await page.keyboard.press('Escape');
  await expect.poll(() => spanOf(page)).toBeUndefined();
});

test("a click on a step's number or a region's band chooses its interval", async ({ open }) => {
  const { steps } = report(TRAINING).devices[0].steps;
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  await page.keyboard.press('n');
  const second = `${steps[1].first_event}.${steps[1].end_event}`;
  await expect.poll(() => spanOf(page)).toBe(second);
  // The address stores it.
  await page.reload();
  await drawn(page);
  expect(await spanOf(page)).toBe(second);
});

test('an interval outside the recording is dropped', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline&span=7000.9000`);
  await expect.poll(() => spanOf(page)).toBeUndefined();
  await page.evaluate(() => (location.hash = '#view=timeline&span=100.9000'));
  await expect.poll(() => spanOf(page)).toBe(`100.${events}`);
});

const details = (page: Page) => page.locator('aside.details [data-span]');
/** Returns the exact bytes of the panel's facts, by name. */
const facts = (page: Page) =>
  details(page)
    .locator('.facts')
    .first()
    .locator('div')
    .evaluateAll((all) => all.map((one) => [one.querySelector('dt')!.textContent, one.querySelector('dd')!.title] as const));
const told = async (page: Page) =>
  Object.fromEntries(
    (await facts(page)).filter(([, title]) => title.endsWith('bytes')).map(([name, title]) => [name, exact(title)]),
  );
/** Returns the bytes in the table of groups, from the shown column. */
const groups = (page: Page) =>
  details(page)
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => row.querySelectorAll('td')[1]!.title));

/** Returns the command's values by the panel's names. */
const expected = (device: any) => ({
  'at the start': device.before.bytes,
  allocated: device.allocated.bytes,
  freed: device.freed.bytes,
  '… from before': device.freed_from_before.bytes,
  '… temporary': device.temporary.bytes,
  retained: device.survived.bytes,
  peak: device.highest_allocated_bytes,
  rise: device.rise_bytes,
  'at the end': device.after.bytes,
});

test("allocations of step 2's backward pass by category: a click and a choice", async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  const box = await plotBox(page);
  // Its band above the plot.
  await page.mouse.click(box.x + (3300 / (events + 1)) * box.width, box.y - 56);
  await details(page)
    .getByRole('heading', { name: /^backward of step 2: / })
    .waitFor();
  await details(page).getByRole('combobox', { name: 'By' }).selectOption('category');
  await page.locator('aside.details table[aria-label^="By category"]').waitFor();
  const [from, to] = (await details(page).getAttribute('data-span'))!.split('.').map(Number);
  const [device] = report(TRAINING, '--at', `${from}..${to! - 1}`, '--by', 'category').devices;
  expect(device.name).toBe('backward of step 2');
  expect(await told(page)).toEqual(expected(device));
  const allocated = device.groups.map((group: any) => group.allocated.bytes).filter((bytes: number) => bytes > 0);
  expect((await groups(page)).map(exact)).toEqual(allocated);
  // Beside the previous step, on request.
  await details(page).getByRole('button', { name: 'Compare with backward of step 1' }).click();
  await expect.poll(async () => (await state(page))['spanwith']).toBe('before');
  await details(page).getByRole('columnheader', { name: 'Change' }).waitFor();
});

test('interval answers match the command', { timeout: 60_000 }, async ({ open }) => {
  for (const name of ['training.pickle.zst', 'leak.pickle', 'oom.pickle']) {
    const file = example(name);
    const [{ events }] = report(file).devices;
    const page = await open(`${await serving(file)}#view=timeline`);
    for (const [a, b, by] of [
      [0, 1, 'line'],
      [0.21, 0.6, 'stack'],
      [0.5, 0.52, 'layer'],
      [0.9, 1, 'function'],
    ] as const) {
      const [from, to] = [Math.round(a * events), Math.round(b * events)];
      await page.evaluate((hash) => (location.hash = hash), `view=timeline&span=${from}.${to}&by=${by}`);
      await page.locator(`aside.details [data-span="${from}.${to}"][aria-busy="false"]`).waitFor();
      const [device] = report(file, '--at', `${from}..${to - 1}`, '--by', by).devices;
      expect(await told(page), `${name} ${from}..${to}`).toEqual(expected(device));
      await expect
        .poll(async () => (await groups(page)).reduce((sum, title) => sum + exact(title), 0))
        // Without allocations, the groups hold memory instead.
        .toBe(device.allocated.bytes || device.at_highest.bytes);
    }
  }
});

test('without an interval, the panel describes the shown part', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  await details(page)
    .getByRole('heading', { name: /^the whole recording: / })
    .waitFor();
  await redrawn(page, () => page.evaluate(() => (location.hash = '#view=timeline&range=1001~2001')));
  await page.locator('aside.details [data-span="1000.2000"]').waitFor();
  expect(await told(page)).toEqual(expected(report(TRAINING, '--at', '1000..1999').devices[0]));
  // The hints are folded below.
  const hints = page.getByText('Pointer gestures');
  await hints.click();
  await page.getByText('shows only this part').waitFor();
});

test('a row leads to its stack and to a search, which narrows the groups', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline&span=2439.5252&by=category`);
  await details(page).locator('tbody tr').first().waitFor();
  await details(page)
    .getByRole('row', { name: /^activation/ })
    .click();
  const group = page.getByRole('region', { name: 'Chosen group' });
  await group.locator('.stack-trace .frames li').first().waitFor();
  await group.getByRole('button', { name: 'Search for this group' }).click();
  await expect.poll(async () => (await state(page))['search']).toBe('category:activation');
  await expect.poll(() => details(page).locator('tbody tr').count()).toBe(1);
});

test('the other views show the interval in a line that leads to its details', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment&span=2439.5252`);
  const bar = page.locator('.selection-bar[data-span="2439.5252"]');
  await bar.getByText(/^step 2: 6.83 GiB allocated/).waitFor();
  await bar.getByRole('button', { name: 'Show its allocations' }).click();
  await details(page)
    .getByRole('heading', { name: /^step 2: / })
    .waitFor();
  await show(page, 'state');
  await bar.getByRole('button', { name: 'Clear the interval' }).click();
  await expect.poll(() => spanOf(page)).toBeUndefined();
});

test('a recording without events still has an answer', async ({ open }) => {
  const page = await open(`${await serving(segmentsOnly())}#view=timeline`);
  await details(page)
    .getByRole('heading', { name: /^the whole recording: 0 B allocated, 0 B freed, peak / })
    .waitFor();
  await details(page).locator('tbody tr').first().waitFor();
});

test('on the time axis, an interval has the events of its time range', async ({ open }) => {
  const { steps } = report(TRAINING).devices[0].steps;
  const page = await open(`${await serving(TRAINING)}#view=timeline&axis=time`);
  await page.keyboard.press('n');
  await expect.poll(() => spanOf(page)).toBe(`${steps[1].first_event}.${steps[1].end_event}`);
  const box = await plotBox(page);
  await redrawn(page, () => page.keyboard.press('0'));
  await page.keyboard.down('Shift');
  const [begin, end] = [box.x + 0.25 * box.width, box.x + 0.75 * box.width];
  await drag(page, [begin, box.y + 40], [end, box.y + 50]);
  await page.keyboard.up('Shift');
  await expect.poll(() => spanOf(page)).not.toBe(`${steps[1].first_event}.${steps[1].end_event}`);
  const [from, to] = (await spanOf(page))!.split('.').map(Number);
  const source = await answering(TRAINING);
  const lasted = (await source.recordings())[0]!.devices[0]!.duration_us!;
  const { time_us: times } = await source.ask(0, 0, { question: 'events', first: 0, count: events });
  // Two pixels, because the column of the picture shows one of its moments.
  const slack = (2 * lasted) / box.width;
  for (const [first, at] of [
    [from!, 0.25 * lasted],
    [to!, 0.75 * lasted],
  ] as const) {
    // Events before the end happened before that time, and later events after it.
    expect(times[first - 1]).toBeLessThan(at + slack);
    expect(times[first]).toBeGreaterThan(at - slack);
  }
});
