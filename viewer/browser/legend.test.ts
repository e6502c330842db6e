// The legend: exact bytes and shares of the groups at the shown moment, compared with the command.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { COLORS } from '../src/state/grouping';
import { share } from '../src/text/units';
import { example, report, tagged } from './command';
import { legend, redrawn, serving, state, test } from './page';

const EXAMPLES = ['training.pickle.zst', 'leak.pickle', 'oom.pickle'];
const MOST = 12;

interface Listed {
  key: string;
  bytes: number;
  text: string;
  color: string;
}

/** Returns the legend's groups, its moment and its total. */
async function listed(page: Page): Promise<{ moment: number; bytes: number; groups: Listed[] }> {
  return legend(page).evaluate((list) => {
    const whole = list.querySelector<HTMLElement>('.legend-whole');
    const groups = [...list.querySelectorAll<HTMLElement>('[data-key]')].map((entry) => ({
      key: entry.dataset['key'] ?? '',
      bytes: Number(entry.dataset['bytes']),
      text: entry.textContent ?? '',
      color: entry.querySelector<HTMLElement>('.legend-color')?.style.background ?? '',
    }));
    return { moment: Number(whole?.dataset['moment'] ?? NaN), bytes: Number(whole?.dataset['bytes'] ?? NaN), groups };
  });
}

/** Returns pseudorandom numbers, the same each time. */
function* random(seed: number): Generator<number> {
  for (let n = seed; ; ) yield (n = (n * 1664525 + 1013904223) >>> 0) / 2 ** 32;
}

const GROUPS = COLORS.filter((by) => by !== 'allocation');

test.for(EXAMPLES)('the legend of %s says what the report says, at any moment', { timeout: 180_000 }, async (name, { open }) => {
  const file = example(name);
  const numbers = random(name.length);
  const events = report(file).devices[0].events as number;
  const page = await open(`${await serving(file)}#view=timeline`);
  const order = (all: number[]) => all.toSorted((a, b) => b - a);
  for (const by of GROUPS) {
    for (const event of [0, 1].map(() => Math.floor(numbers.next().value * events))) {
      await page.evaluate((hash) => (location.hash = hash), `#view=timeline&color=${by}&moment=${event + 1}`);
      const told = report(file, '--by', by, '--at', String(event)).devices[0].at;
      await expect.poll(async () => (await listed(page)).moment).toBe(event + 1);
      const holders: { key: string; bytes: number }[] = told.holders;
      const rest = holders.slice(MOST).reduce((sum, { bytes }) => sum + bytes, 0);
      const expected = [...holders.slice(0, MOST).map(({ bytes }) => bytes), ...(holders.length > MOST ? [rest] : [])];
      // The moment may still belong to the previous answer with another grouping.
      await expect
        .poll(async () => order((await listed(page)).groups.map(({ bytes }) => bytes).filter((n) => n > 0)))
        .toEqual(order(expected));
      const { bytes, groups } = await listed(page);
      expect(bytes).toBe(told.allocated_bytes);
      if (by === 'category') {
        const told = groups.map(({ text, bytes }) => [/^[a-z ]+/.exec(text)?.[0].trim(), bytes] as const);
        expect(new Set(told.map(([name]) => name)).size).toBe(told.length);
        for (const { key, bytes } of holders) expect(told).toContainEqual([key.replace('_', ' '), bytes]);
      }
      expect(groups.reduce((sum, group) => sum + group.bytes, 0)).toBe(bytes);
      // Each share is rounded as in the report.
      for (const group of groups) expect(group.text).toContain(share(group.bytes, bytes));
      for (const [i, { key }] of holders.slice(0, MOST).entries()) {
        if (by === 'line' || by === 'layer') expect(groups[i]!.text).toContain(key);
      }
      if (holders.length > MOST && by !== 'category') expect(groups.at(-1)!.text).toContain(`${holders.length - MOST} other`);
    }
  }
});

test('for an interval, the legend shows its peak', { timeout: 60_000 }, async ({ open }) => {
  for (const name of EXAMPLES) {
    const file = example(name);
    const [{ events }] = report(file).devices;
    const page = await open(`${await serving(file)}#view=timeline`);
    for (const [a, b, by] of [
      [0, 1, 'line'],
      [0.1, 0.3, 'category'],
      [0.5, 0.52, 'stack'],
    ] as const) {
      const [from, to] = [Math.round(a * events), Math.round(b * events)];
      await page.evaluate((hash) => (location.hash = hash), `#view=timeline&color=${by}&span=${from}.${to}`);
      const [device] = report(file, '--at', `${from}..${to - 1}`, '--by', by).devices;
      const held = device.groups.map((group: any) => group.at_highest.bytes).filter((bytes: number) => bytes > 0);
      const order = (all: number[]) => all.toSorted((a, b) => b - a);
      const rest = order(held).slice(MOST);
      const told = [...order(held).slice(0, MOST), ...(rest.length > 0 ? [rest.reduce((sum, n) => sum + n, 0)] : [])];
      await expect
        .poll(async () => order((await listed(page)).groups.map(({ bytes }) => bytes).filter((n) => n > 0)))
        .toEqual(order(told));
      expect(await listed(page)).toMatchObject({
        moment: (device.highest_event ?? -1) + 1,
        bytes: device.highest_allocated_bytes,
      });
    }
  }
});

test('reserved ranges have no category', async ({ open }) => {
  const page = await open(`${await serving(example('training.pickle.zst'))}#view=timeline&stacked=reserved&color=category`);
  await legend(page).locator('[data-key]').first().waitFor();
  const { bytes, groups } = await listed(page);
  expect(groups.map(({ key, bytes }) => [key, bytes])).toEqual([['0 unknown', bytes]]);
});

test('no category is cut off in a narrow page', async ({ open }) => {
  const address = `${await serving(example('fleet/rank5.pickle.zst'))}#view=overview&color=category`;
  for (const width of [1600, 1280, 900]) {
    const page = await open(address, { viewport: { width, height: 800 } });
    await legend(page).locator('[data-category]').first().waitFor();
    const isWhole = await legend(page).evaluate((list) => {
      const box = list.getBoundingClientRect();
      const entries = [...list.querySelectorAll('[data-category]')].map((entry) => entry.getBoundingClientRect());
      return entries.map(({ top, bottom, right }) => top >= box.top - 1 && bottom <= box.bottom + 1 && right <= box.right + 1);
    });
    expect(isWhole.length).toBeGreaterThan(4);
    expect(isWhole).not.toContain(false);
    await page.close();
  }
});

test('the legend names its moment, and mentions faded groups', async ({ open }) => {
  const file = example('leak.pickle');
  const page = await open(`${await serving(file)}#view=timeline&color=line&matches=marked`);
  const whole = legend(page).locator('.legend-whole');
  await expect.poll(() => whole.textContent()).toMatch(new RegExp(`^peak, event [\\d,]+: `));
  await expect.poll(async () => (await listed(page)).bytes).toBe(report(file).devices[0].peak_allocated_bytes);
  const first = legend(page).locator('[data-key] button').first();
  await first.focus();
  await page.keyboard.press('Enter');
  await expect.poll(async () => (await state(page))['search']).toBeTruthy();
  await expect.poll(() => whole.textContent()).toContain('match, others are faded');
  await expect.poll(() => legend(page).locator('.legend-faded').count()).toBeGreaterThan(0);
  await page.keyboard.press('Enter');
  await expect.poll(() => legend(page).locator('.legend-faded').count()).toBe(0);
  await page.evaluate(() => (location.hash = '#view=timeline&color=line&matches=marked&moment=5'));
  await expect.poll(() => whole.textContent()).toMatch(/^event 4: /);
});

test('the largest groups have distinct colors, at every moment and in another recording', async ({ open }) => {
  const page = await open(`${await serving(tagged('base'), tagged('batch'))}#view=timeline&color=line`);
  const colors = async (): Promise<Map<string, string>> => {
    await expect.poll(async () => (await listed(page)).groups.length).toBeGreaterThan(3);
    const { groups } = await listed(page);
    const named = groups.filter(({ key }) => key !== 'others' && !key.endsWith(' '));
    const name = ({ text }: Listed) => text.replace(/ ?[\d.]+ [KMGi]*B[\d.]+%$/, '');
    expect(new Set(named.map(({ color }) => color)).size).toBe(new Set(named.map(name)).size);
    return new Map(named.map((group) => [name(group), group.color]));
  };
  const ofA = await colors();
  await redrawn(page, () => page.evaluate(() => (location.hash = '#view=timeline&color=line&file=1')));
  await expect.poll(async () => (await listed(page)).groups.every(({ color }) => color !== '')).toBe(true);
  const ofB = await colors();
  const both = [...ofA.keys()].filter((name) => ofB.has(name));
  expect(both.length).toBeGreaterThan(2);
  // With both known, the colors are distinct across both.
  await page.evaluate(() => (location.hash = '#view=timeline&color=line'));
  await expect
    .poll(async () => {
      const again = await colors();
      return both.filter((name) => again.get(name) !== ofB.get(name));
    })
    .toEqual([]);
});

test("a table shows the picture's colors, and the ends of paths at 900 pixels", async ({ open }) => {
  const file = example('training.pickle.zst');
  const page = await open(`${await serving(file)}#view=moment&color=file&by=file`, { viewport: { width: 900, height: 800 } });
  await expect.poll(async () => (await listed(page)).groups.length).toBeGreaterThan(1);
  const rows = page.getByRole('grid', { name: 'Allocated by file' }).locator('tr[data-row]');
  const table = () =>
    rows.evaluateAll((all) =>
      all.map((row) => [
        row.querySelector('.label')?.textContent ?? '',
        row.querySelector<HTMLElement>('.legend-color')?.style.background ?? '',
      ]),
    );
  await expect.poll(async () => (await table()).every(([, color]) => color !== '')).toBe(true);
  const ofTable = new Map((await table()) as [string, string][]);
  for (const { key, text, color } of (await listed(page)).groups) {
    if (key === 'others') continue;
    const [, same] = [...ofTable].find(([name]) => text.startsWith(name)) ?? [];
    expect(same, text).toBe(color);
  }
  // If pictures use other colors, the table has none.
  await page.evaluate(() => (location.hash = '#view=moment&color=stream&by=file'));
  await expect.poll(async () => (await table()).every(([, color]) => color === '')).toBe(true);
  // Paths are cut at the beginning; their ends stay.
  await page.evaluate(() => (location.hash = '#view=moment&by=stack'));
  const paths = page.getByRole('grid', { name: 'Allocated by stack' }).locator('.label:has(.label-path)');
  await paths.first().waitFor();
  const cut = await paths.evaluateAll((all) =>
    all.map((label) => {
      const [path, name] = [label.querySelector<HTMLElement>('.label-path')!, label.querySelector<HTMLElement>('.label-name')!];
      (label as HTMLElement).style.maxWidth = `${name.scrollWidth + 30}px`;
      return [path.scrollWidth > path.clientWidth, name.scrollWidth > name.clientWidth];
    }),
  );
  expect(cut.length).toBeGreaterThan(0);
  expect(cut).toEqual(cut.map(() => [true, false]));
  expect(await paths.first().evaluate((label) => label.closest('td')?.title)).toBe(await paths.first().textContent());
});
