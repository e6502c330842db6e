// Categories: colors, bands, the legend as a filter, and evidence.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { categoryColor, css, mix } from '../src/style/colors';
import { CATEGORIES, type Category } from '../src/source/source';

import { example, report } from './command';
import { answering, drawn, legend, plotBox, ready, serving, show, state, tableRows, test } from './page';
import { segmentsOnly, told } from './recordings';

const LEAK = example('leak.pickle');

/** Returns the CSS colors of a canvas's pixel column, from the bottom up. */
const pixels = (page: Page, canvas: string, x: number): Promise<string[]> =>
  page.locator(canvas).evaluate((of: HTMLCanvasElement, x) => {
    const at = Math.floor(x * of.width);
    const { data } = of.getContext('2d')!.getImageData(at, 0, 1, of.height);
    const colors: string[] = [];
    for (let i = data.length - 4; i >= 0; i -= 4) {
      if (data[i + 3] === 0) continue;
      const color = `#${[0, 1, 2].map((k) => data[i + k]!.toString(16).padStart(2, '0')).join('')}`;
      if (colors.at(-1) !== color) colors.push(color);
    }
    return colors;
  }, x);

const PLOT = '.timeline-plot canvas';
const BANDS = '.minimap-bands canvas';
const canvas = { expected: /getImageData/ } as const;

/** Returns an allocation's color, or the lighter one that every second allocation has. */
const ofCategory = (category: Category, dark: boolean) => {
  const color = categoryColor(category, dark);
  return [css(color), css(mix(color, 0xffffff, 0.1))];
};

/** Returns the categories whose colors a canvas's pixel column has, in the order of all categories. */
const categoriesAt = async (page: Page, canvas: string, x: number, dark = false): Promise<Category[]> => {
  const colors = await pixels(page, canvas, x);
  return CATEGORIES.filter((category) => ofCategory(category, dark).some((color) => colors.includes(color)));
};

for (const dark of [false, true]) {
  test(`categories provide the colors if known, dark: ${dark}`, async ({ open }) => {
    const page = await open(`${await serving(told().file)}#view=timeline`, { colorScheme: dark ? 'dark' : 'light', ...canvas });
    await expect.poll(() => page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('category');
    // The fifth of eight moments: a parameter, an activation above it, and a gradient above both.
    await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8, dark)).toEqual(['parameter', 'gradient', 'activation']);
    // The bands are in the order of all categories, not in the order of allocation.
    const order = ['parameter', 'gradient', 'activation'] as const;
    await expect.poll(() => pixels(page, BANDS, 4.5 / 8)).toEqual(order.map((category) => css(categoryColor(category, dark))));
    // Another choice applies, and the address stores it.
    await page.getByRole('combobox', { name: 'Color' }).selectOption('size');
    await expect.poll(async () => (await state(page))['color']).toBe('size');
    await page.reload();
    await drawn(page);
    await expect.poll(() => page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('size');
  });
}

test('without known categories, stacks provide the colors and there are no bands', async ({ open }) => {
  const page = await open(`${await serving(segmentsOnly())}#view=timeline`);
  await expect.poll(() => page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('stack');
  await expect.poll(() => page.locator(BANDS).count()).toBe(0);
});

test('the bands match the report at the peak, and the tooltip shows them', async ({ open }) => {
  const { categories_at_peak: categories, peak_allocated_bytes: peak } = report(LEAK).devices[0];
  const source = await answering(LEAK);
  const { events } = (await source.recordings())[0]!.devices[0]!;
  const bands = await source.ask(0, 0, { question: 'bands', axis: 'events', from: 0, to: events + 1, width: 1, only: null });
  const sums = bands.bands.map(({ category, bytes }) => [CATEGORIES[category], bytes[0]]);
  expect(Object.fromEntries(sums)).toEqual(
    Object.fromEntries(
      categories.flatMap(({ category, bytes: held, workspace_bytes: apart = 0 }: any) =>
        apart > 0
          ? [
              [category, held - apart],
              ['workspace', apart],
            ]
          : [[category, held]],
      ),
    ),
  );
  expect(sums.reduce((sum, [, bytes]) => sum + Number(bytes), 0)).toBe(peak);
  const page = await open(`${await serving(LEAK)}#view=timeline`);
  await page.getByRole('img', { name: /^Allocated bytes by category over the whole recording. At the peak: / }).waitFor();
  const box = (await page.locator('.minimap-bands').boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + 10);
  const tip = page.locator('.part-tooltip');
  await expect.poll(() => tip.textContent()).toMatch(/^After event [\d,]+allocated/);
});

test('categories of a long recording are computed after the first picture', async ({ open }) => {
  const { file } = told(270_000);
  const source = await answering(file);
  const before = (await source.recordings())[0]!.devices[0]!;
  expect(before.purposes).toBeNull();
  const window = { axis: 'events', from: 0, to: 8, width: 8 } as const;
  const picture = () =>
    source.picture(0, 0, { ...window, stacked: 'allocated', height: 8, low: 0, high: null, fit_reserved: false, only: null });
  expect((await picture()).items.purpose).toHaveLength(0);
  await source.meaning(0, 0);
  expect((await picture()).items.purpose).not.toHaveLength(0);
  // The page requests them.
  const page = await open(`${await serving(file)}#view=timeline&range=0~8`, canvas);
  await expect.poll(() => page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('category');
  await legend(page)
    .getByRole('button', { name: /^activation / })
    .waitFor();
  await expect.poll(() => categoriesAt(page, PLOT, 2.5 / 8)).toContain('parameter');
});

test('the legend isolates a category, hides others, and keeps the other search terms', async ({ open }) => {
  const { file, bytes } = told();
  const page = await open(`${await serving(file)}#view=timeline&search=${encodeURIComponent('>=1KiB "two words"')}`, canvas);
  const box = page.getByRole('searchbox');
  const only = legend(page).getByRole('button', { name: /^activation / });
  const hide = legend(page).getByRole('button', { name: 'Hide activation' });
  await only.click();
  await expect.poll(() => box.inputValue()).toBe('>=1KiB "two words" category:activation');
  await expect.poll(() => only.getAttribute('aria-pressed')).toBe('true');
  await only.click();
  await expect.poll(() => box.inputValue()).toBe('>=1KiB "two words"');
  await box.fill('');
  await expect.poll(() => page.locator('[data-matches]').count()).toBe(0);
  // The next picture leaves out the hidden matches.
  await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8)).toEqual(['parameter', 'gradient', 'activation']);
  // With the keyboard.
  await hide.focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => hide.getAttribute('aria-pressed')).toBe('true');
  await page.locator(`[data-matches="2"][data-bytes="${bytes.parameter + bytes.gradient}"]`).waitFor();
  await expect.poll(async () => (await state(page))['search']).toBe('-category:activation');
  // The others are stacked without it.
  await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8)).toEqual(['parameter', 'gradient']);
  await expect.poll(() => categoriesAt(page, BANDS, 4.5 / 8)).toEqual(['parameter', 'gradient']);
  await page.keyboard.press('Space');
  await expect.poll(() => box.inputValue()).toBe('');
  // The views of live memory follow.
  await only.focus();
  await page.keyboard.press('Enter');
  await show(page, 'moment');
  await page.getByRole('combobox', { name: 'Group by' }).selectOption('category');
  await expect.poll(() => page.locator('tr.marked').count()).toBe(1);
});

test('an allocation shows its category, the evidence and the module', async ({ open }) => {
  const { file } = told();
  const page = await open(`${await serving(file)}#view=timeline&selected=1`);
  const details = page.locator('aside[data-selected="1"]');
  await expect.poll(() => details.textContent()).toContain('activation: recorded');
  await expect.poll(() => details.textContent()).toContain('layernet.act');
  const plot = await plotBox(page);
  await page.mouse.move(plot.x + (3.5 / 8) * plot.width, plot.y + plot.height - 6);
  await expect.poll(() => page.locator('.part-tooltip').textContent()).toContain('parameter: recorded');
  await show(page, 'state');
  await expect.poll(() => page.getByRole('region', { name: 'Details' }).textContent()).toContain('activation: recorded');
});

test('rules give their evidence in the words of the report', async ({ open }) => {
  const told = report(LEAK).devices[0].category_reasons[0];
  const page = await open(`${await serving(LEAK)}#view=overview`);
  await ready(page, 'overview');
  await expect.poll(() => page.locator('.reason').allTextContents()).toContainEqual(expect.stringContaining(told.because));
});

test('live memory is grouped by category and by layer', async ({ open }) => {
  const { file, bytes } = told();
  const page = await open(`${await serving(file)}#view=moment&by=category&color=line`);
  await ready(page, 'moment');
  const sizes = async () =>
    Object.fromEntries((await tableRows(page, /^Allocated by/)).map(([name, size]) => [name, Number(size!.replace(/\D/g, ''))]));
  expect(await sizes()).toEqual(bytes);
  for (const [category, held] of Object.entries(bytes)) {
    await page.locator(`.category-bar [data-category="${category}"][data-bytes="${held}"]`).waitFor();
  }
  await page.getByRole('combobox', { name: 'Group by' }).selectOption('layer');
  await expect
    .poll(sizes)
    .toEqual({ 'net.fc': bytes.parameter, 'net.act': bytes.activation, '(the outermost module)': bytes.gradient });
});
