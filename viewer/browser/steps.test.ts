// The steps of the program: their row above the plot, their card, and the key that moves between them.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example, report } from './command';
import { drawn, exact, pair, plotBox, ready, serving, show, state, test } from './page';
import { segmentsOnly, stepping } from './recordings';
import { bytes } from '../src/text/units';

const MIB = 1 << 20;
const STEPS = 300;
const LARGE = 137;
/** A step has six events; two events precede the first step. */
const ends = (step: number): [number, number] => [3 + 6 * step, 9 + 6 * step];

const file = stepping(STEPS, LARGE);
const TRAINING = example('training.pickle.zst');

/** Returns the colors in the step row, at a fraction of the plot's width. */
const colorsAt = (page: Page, right: number): Promise<string[]> =>
  page.locator('.timeline-over').evaluate((over: HTMLCanvasElement, right) => {
    const plot = document.querySelector<HTMLElement>('.timeline-plot')!;
    const x = Math.round((plot.offsetLeft + right * plot.offsetWidth) * devicePixelRatio);
    const { data } = over.getContext('2d')!.getImageData(x, (plot.offsetTop - 16) * devicePixelRatio, 1, 14 * devicePixelRatio);
    return Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 4).join());
  }, right);

const place = (step: number) => (3 + 6 * step + 3) / (3 + 6 * STEPS);
const canvas = { expected: /getImageData/ } as const;
const tooltip = (page: Page) => page.locator('.part-tooltip');

test("the card has the report's steps, and leads to them", async ({ open }) => {
  const told = report(file).devices[0].steps;
  const page = await open(`${await serving(file)}#view=overview`);
  await ready(page, 'overview');
  const card = page.locator('.card').filter({ has: page.getByRole('heading', { name: `${STEPS} steps` }) });
  await card.getByText('Steps are runs of ProfilerStep#. 299 steps made the same allocations.').waitFor();
  await card.getByRole('img', { name: `the highest is ${bytes(88 * MIB)}, in step ${LARGE + 1} of ${STEPS}` }).waitFor();
  const rows = await card
    .locator('tbody tr')
    .evaluateAll((all) =>
      all.map((row) => [row.querySelector('th')!.textContent, ...[...row.querySelectorAll('td')].map((cell) => cell.title)]),
    );
  const step = (name: string, n: number) => [
    `${n + 1}, ${name}`,
    told.steps[n].peak_allocated_bytes,
    told.steps[n].allocated_bytes,
    told.steps[n].kept_bytes,
  ];
  expect(rows.map(([name, ...figures]) => [name, ...figures.slice(0, 3).map((n) => exact(n!))])).toEqual([
    step('the first', 0),
    step('the median peak', 151),
    step('the highest peak, the first that differs', LARGE),
  ]);
  expect(told.first_unusual).toBe(LARGE);
  await card
    .getByRole('button', { name: String(LARGE + 1) })
    .first()
    .press('Enter');
  await expect.poll(async () => pair((await state(page))['range'])).toEqual(ends(LARGE));
  await expect.poll(() => state(page)).toMatchObject({ view: 'timeline', moment: String(told.steps[LARGE].peak_event + 1) });
  // The contents of the worst step at its peak, in two clicks.
  await show(page, 'moment');
  await page.locator(`.moment-view[data-total="${88 * MIB}"]`).waitFor();
});

test('a bar of the card leads to its step', async ({ open }) => {
  const page = await open(`${await serving(file)}#view=overview`);
  await ready(page, 'overview');
  const chart = page.locator('.step-bars svg');
  const box = (await chart.boundingBox())!;
  const x = ((LARGE + 0.5) / STEPS) * box.width;
  await chart.hover({ position: { x, y: 20 } });
  await expect.poll(() => tooltip(page).textContent()).toContain(`Step ${LARGE + 1}`);
  await chart.click({ position: { x, y: 20 } });
  await expect.poll(async () => pair((await state(page))['range'])).toEqual(ends(LARGE));
});

test('the row marks the unusual step, describes each, and a click shows it', async ({ open }) => {
  const page = await open(`${await serving(file)}#view=timeline`, canvas);
  const usual = new Set(await colorsAt(page, place(LARGE + 20)));
  const marked = await colorsAt(page, place(LARGE));
  expect(marked.some((color) => !usual.has(color))).toBe(true);
  const plot = await plotBox(page);
  const at = (step: number) => [plot.x + place(step) * plot.width, plot.y - 8] as const;
  await page.mouse.move(...at(LARGE));
  await expect
    .poll(() => tooltip(page).textContent())
    .toMatch(/^Step 138peak88\.00 MiBallocated80\.00 MiB in 2 blockskept0 Bevents824 to 829took.*Its allocations differ/);
  await page.mouse.click(...at(LARGE));
  await expect.poll(async () => pair((await state(page))['range'])).toEqual(ends(LARGE));
  // The address stores it.
  await page.reload();
  await drawn(page);
  await expect.poll(async () => pair((await state(page))['range'])).toEqual(ends(LARGE));
  // Later content above the plot moves it.
  await expect
    .poll(async () => {
      const { x, y, width } = await plotBox(page);
      await page.mouse.move(x + width / 2, y - 8);
      return (await tooltip(page).allTextContents()).join();
    })
    .toContain('Step 138');
});

test('the key moves from step to step, starting at the peak, also on the time axis', async ({ open }) => {
  const page = await open(`${await serving(file)}#view=timeline`);
  const shows = (step: number) => expect.poll(async () => pair((await state(page))['range'])).toEqual(ends(step));
  await page.keyboard.press('n');
  await shows(LARGE);
  await page.keyboard.press('n');
  await shows(LARGE + 1);
  await page.keyboard.press('Shift+N');
  await shows(LARGE);
  await page.getByRole('combobox', { name: 'Along' }).selectOption('time');
  await page.keyboard.press('0');
  await page.keyboard.press('n');
  // Six events, 10 us apart; two annotations are between two steps.
  await expect
    .poll(async () => {
      const [from, to] = pair((await state(page))['range']);
      return to - from;
    })
    .toBe(80);
});

test("other recordings have the report's steps", async ({ open }) => {
  const { steps } = report(TRAINING).devices[0].steps;
  const page = await open(`${await serving(TRAINING)}#view=overview`);
  await ready(page, 'overview');
  await page.getByRole('heading', { name: `${steps.length} steps` }).waitFor();
});

test('without repetition there is no card and no row', async ({ open }) => {
  const page = await open(`${await serving(segmentsOnly(), example('oom.pickle'))}#view=overview`);
  for (const hash of ['view=overview', 'view=overview&file=1']) {
    await page.evaluate((to) => (location.hash = to), hash);
    await ready(page, 'overview');
    await expect.poll(() => page.getByRole('heading', { name: /steps$/ }).count()).toBe(0);
    await page.keyboard.press('n');
    expect((await state(page))['range']).toBeUndefined();
  }
});
