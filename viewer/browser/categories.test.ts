// What memory is for: colours, bands, the legend that filters, and reasons.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { categoryColor, css, mix } from '../src/style/colors';
import { CATEGORIES, type Category } from '../src/source/source';
import { engineOf } from './asking';
import { example, report } from './command';
import { plotBox, ready, serving, show, state, tableRows, test } from './page';
import { segmentsOnly, told } from './recordings';

const LEAK = example('leak.pickle');

/** The colours of a column of pixels of a canvas, from the bottom up, as CSS writes them. */
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
const legend = (page: Page) => page.getByRole('list', { name: 'Legend' });

/** The colour of an allocation, or the lighter one that every other has. */
const ofCategory = (category: Category, dark: boolean) => {
  const color = categoryColor(category, dark);
  return [css(color), css(mix(color, 0xffffff, 0.1))];
};

/** The categories whose colours a column of pixels of a canvas has, in the order of all categories. */
const categoriesAt = async (page: Page, canvas: string, x: number, dark = false): Promise<Category[]> => {
  const colors = await pixels(page, canvas, x);
  return CATEGORIES.filter((category) => ofCategory(category, dark).some((color) => colors.includes(color)));
};

for (const dark of [false, true]) {
  test(`categories are the colours where they are known, dark: ${dark}`, async ({ open }) => {
    const page = await open(`${await serving(told().file)}#view=timeline`, { colorScheme: dark ? 'dark' : 'light', ...canvas });
    expect(await page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('category');
    // The fifth of eight moments: a parameter, an activation above it, and a gradient above both.
    await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8, dark)).toEqual(['parameter', 'gradient', 'activation']);
    // The bands lie in the order of all categories, whatever came first.
    const order = ['parameter', 'gradient', 'activation'] as const;
    await expect.poll(() => pixels(page, BANDS, 4.5 / 8)).toEqual(order.map((category) => css(categoryColor(category, dark))));
    // Another choice holds, and the address has it.
    await page.getByRole('combobox', { name: 'Color' }).selectOption('size');
    await expect.poll(async () => (await state(page))['color']).toBe('size');
    await page.reload();
    await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
    expect(await page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('size');
  });
}

test('where nothing is known stacks are the colours, and there are no bands', async ({ open }) => {
  const page = await open(`${await serving(segmentsOnly())}#view=timeline`);
  expect(await page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('stack');
  expect(await page.locator(BANDS).count()).toBe(0);
});

test('the bands are those of the report at the peak, and the pointer tells them', async ({ open }) => {
  const { categories_at_peak: categories, peak_allocated_bytes: peak } = report(LEAK).devices[0];
  const source = engineOf(LEAK);
  const { events } = (await source.recordings())[0]!.devices[0]!;
  const bands = await source.bands(0, 0, { axis: 'events', from: 0, to: events + 1, width: 1 });
  const sums = bands.bands.map(({ category, bytes }) => [CATEGORIES[category], bytes[0]]);
  expect(Object.fromEntries(sums)).toEqual(
    Object.fromEntries(categories.map((c: { category: string; bytes: number }) => [c.category, c.bytes])),
  );
  expect(sums.reduce((sum, [, bytes]) => sum + Number(bytes), 0)).toBe(peak);
  const page = await open(`${await serving(LEAK)}#view=timeline`);
  await page.getByRole('img', { name: /^Allocated bytes by category over the whole recording. At the peak: / }).waitFor();
  const box = (await page.locator('.minimap-bands').boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + 10);
  const tip = page.locator('.part-tooltip');
  await expect.poll(() => tip.textContent()).toMatch(/^After event [\d,]+allocated/);
});

test('of a long recording it is found out after the first picture', async ({ open }) => {
  const { file } = told(270_000);
  const source = engineOf(file);
  const before = (await source.recordings())[0]!.devices[0]!;
  expect(before.purposes).toBeNull();
  const window = { axis: 'events', from: 0, to: 8, width: 8 } as const;
  const picture = () =>
    source.picture(0, 0, { ...window, stacked: 'allocated', height: 8, low: 0, high: null, fit_reserved: false });
  expect((await picture()).items.purpose).toHaveLength(0);
  await source.meaning(0, 0);
  expect((await picture()).items.purpose).not.toHaveLength(0);
  // The page asks for it.
  const page = await open(`${await serving(file)}#view=timeline&range=0~8`, canvas);
  await expect.poll(() => page.getByRole('combobox', { name: 'Color' }).inputValue()).toBe('category');
  await legend(page)
    .getByRole('button', { name: /^activation / })
    .waitFor();
  await expect.poll(() => categoriesAt(page, PLOT, 2.5 / 8)).toContain('parameter');
});

test('the legend shows a category alone, hides others, and keeps the other words of the search', async ({ open }) => {
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
  // What was found is left out of the picture that is drawn next, not at once.
  await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8)).toEqual(['parameter', 'gradient', 'activation']);
  // By the keyboard.
  await hide.focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => hide.getAttribute('aria-pressed')).toBe('true');
  await page.locator(`[data-matches="2"][data-bytes="${bytes.parameter + bytes.gradient}"]`).waitFor();
  await expect.poll(async () => (await state(page))['search']).toBe('-category:activation');
  await expect.poll(() => categoriesAt(page, PLOT, 4.5 / 8)).toEqual(['parameter', 'gradient']);
  await expect.poll(() => categoriesAt(page, BANDS, 4.5 / 8)).toEqual(['parameter', 'gradient']);
  await page.keyboard.press('Space');
  await expect.poll(() => box.inputValue()).toBe('');
  // What is live follows.
  await only.focus();
  await page.keyboard.press('Enter');
  await show(page, 'moment');
  await page
    .getByRole('button', { name: 'Category', exact: true })
    .or(page.getByRole('radio', { name: 'Category' }))
    .first()
    .click();
  await expect.poll(() => page.locator('tr.marked').count()).toBe(1);
});

test('an allocation says what it is for, why, and which module made it', async ({ open }) => {
  const { file } = told();
  const page = await open(`${await serving(file)}#view=timeline&selected=1`);
  const details = page.locator('aside[data-selected="1"]');
  await expect.poll(() => details.textContent()).toContain('activation: the recording says so');
  expect(await details.textContent()).toContain('layernet.act');
  const plot = await plotBox(page);
  await page.mouse.move(plot.x + (3.5 / 8) * plot.width, plot.y + plot.height - 6);
  await expect.poll(() => page.locator('.part-tooltip').textContent()).toContain('parameter: the recording says so');
  await show(page, 'state');
  await expect
    .poll(() => page.getByRole('region', { name: 'Details' }).textContent())
    .toContain('activation: the recording says so');
});

test('rules tell why, in the words of the report', async ({ open }) => {
  const told = report(LEAK).devices[0].category_reasons[0];
  const page = await open(`${await serving(LEAK)}#view=overview`);
  await ready(page, 'overview');
  await expect.poll(() => page.locator('.reason').allTextContents()).toContainEqual(expect.stringContaining(told.because));
});

test('what is live is grouped by category and by layer', async ({ open }) => {
  const { file, bytes } = told();
  const page = await open(`${await serving(file)}#view=moment&by=category`);
  await ready(page, 'moment');
  const sizes = async () =>
    Object.fromEntries((await tableRows(page, /^Allocated by/)).map(([name, size]) => [name, Number(size!.replace(/\D/g, ''))]));
  expect(await sizes()).toEqual(bytes);
  for (const [category, held] of Object.entries(bytes)) {
    await page.locator(`.category-bar [data-category="${category}"][data-bytes="${held}"]`).waitFor();
  }
  await page
    .getByRole('radio', { name: 'Layer' })
    .or(page.getByRole('button', { name: 'Layer', exact: true }))
    .first()
    .click();
  await expect
    .poll(sizes)
    .toEqual({ 'net.fc': bytes.parameter, 'net.act': bytes.activation, '(the outermost module)': bytes.gradient });
});
