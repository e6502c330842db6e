// The phases of steps: their row above the plot, their card, the key that moves between them, and searches.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example, report, tagged } from './command';
import { exact, numberOf, plotBox, ready, serving, state, test } from './page';
import { segmentsOnly, training } from './recordings';

interface Phase {
  phase: string;
  told_by: string;
  step: number;
  first_event: number;
  end_event: number;
  peak_allocated_bytes: number;
  allocated_bytes: number;
  kept_bytes: number;
  allocations: number;
}

const phasesOf = (file: string): Phase[] => report(file).devices[0].phases;
const spanOf = async (page: Page) => (await state(page))['span'];
const card = (page: Page) => page.locator('.card').filter({ has: page.getByRole('heading', { name: 'Phases', exact: true }) });
const tooltip = (page: Page) => page.locator('.part-tooltip');

/** Returns the rows of the card: the phase, and the exact figures. */
const rows = (page: Page) =>
  card(page)
    .locator('tbody tr')
    .evaluateAll((all) =>
      all.map((row) => [
        row.getAttribute('data-phase'),
        ...[...row.querySelectorAll('td')].map((cell) => cell.title || cell.textContent),
      ]),
    );

test('each training step has its phases, in order', () => {
  const all = phasesOf(training(4));
  expect(all.map(({ phase, step }) => `${phase} ${step}`)).toEqual(
    [1, 2, 3, 4].flatMap((step) => ['forward', 'backward', 'optimizer', 'zero_grad'].map((phase) => `${phase} ${step}`)),
  );
  expect(new Set(all.map(({ told_by: by }) => by))).toEqual(new Set(['stacks']));
});

test("the card has the report's figures for any step, and leads to a phase", async ({ open }) => {
  const file = training(4, 2);
  const page = await open(`${await serving(file)}#view=overview`);
  await ready(page, 'overview');
  await card(page).getByText('Phases are inferred from stacks.').waitFor();
  const told = (step: number) =>
    phasesOf(file)
      .filter((phase) => phase.step === step)
      .map((p) => [p.phase.replace('_', ' '), p.peak_allocated_bytes, p.allocated_bytes, p.kept_bytes, p.allocations]);
  const shown = async () => (await rows(page)).map(([name, ...figures]) => [name, ...figures.map((n) => exact(n!))]);
  for (const step of [3, 1]) {
    await card(page).getByRole('spinbutton', { name: 'Of step' }).fill(String(step));
    await page.keyboard.press('Tab');
    await expect.poll(shown).toEqual(told(step));
  }
  await card(page).getByRole('button', { name: 'backward' }).press('Enter');
  const [backward] = phasesOf(file).filter(({ phase, step }) => phase === 'backward' && step === 1);
  await expect.poll(() => spanOf(page)).toBe(`${backward!.first_event}.${backward!.end_event}`);
  await expect.poll(() => state(page)).toMatchObject({ view: 'timeline' });
});

test('the row describes each phase, and says which are inferred', async ({ open }) => {
  const file = training(4);
  const { events, phases } = report(file).devices[0];
  const page = await open(`${await serving(file)}#view=timeline`);
  const { x, y, width } = await plotBox(page);
  const at = ({ first_event: from, end_event: to }: Phase) => x + ((from + to + 2) / 2 / (events + 1)) * width;
  const [backward] = phases.filter((p: Phase) => p.phase === 'backward' && p.step === 3);
  await page.mouse.move(at(backward), y - 23);
  await expect
    .poll(() => tooltip(page).textContent())
    .toMatch(/^backward of step 3 \(inferred\)allocated6\.00 MiB in 3 blockspeak.*retained-6\.00 MiBevents/);
  // Regions with the names of phases are not inferred.
  const annotated = await open(`${await serving(example('training.pickle.zst'))}#view=timeline`);
  const plot = await plotBox(annotated);
  await annotated.mouse.move(plot.x + (3300 / 5253) * plot.width, plot.y - 23);
  await expect.poll(() => tooltip(annotated).textContent()).toMatch(/^backward of step 2allocated/);
});

test('the key moves from phase to phase, also on the time axis', async ({ open }) => {
  const file = training(4);
  const all = phasesOf(file);
  const page = await open(`${await serving(file)}#view=timeline`);
  const shows = (number: number) => expect.poll(() => spanOf(page)).toBe(`${all[number]!.first_event}.${all[number]!.end_event}`);
  const peak = report(file).devices[0].peak_event;
  const first = all.findIndex(({ end_event: end }) => end > peak);
  await page.keyboard.press('p');
  await shows(first);
  await page.keyboard.press('p');
  await shows(first + 1);
  await page.keyboard.press('Shift+P');
  await shows(first);
  await page.getByRole('combobox', { name: 'Along' }).selectOption('time');
  await page.keyboard.press('p');
  await shows(first + 1);
});

test('a search finds the allocations of a phase', async ({ open }) => {
  const file = training(4);
  const page = await open(`${await serving(file)}#view=allocations`);
  const found = async (words: string) => {
    await page.getByRole('searchbox').fill(words);
    await expect.poll(async () => (await state(page))['search']).toBe(words);
    await page.locator('#search-result [data-matches]').waitFor();
    return numberOf(page, '#search-result [data-matches]', 'data-bytes');
  };
  const sum = (isIt: (phase: Phase) => boolean) =>
    phasesOf(file)
      .filter(isIt)
      .reduce((bytes, phase) => bytes + phase.allocated_bytes, 0);
  await expect.poll(() => found('phase:backward')).toBe(sum(({ phase }) => phase === 'backward'));
  await expect.poll(() => found('phase:forward step:3')).toBe(sum(({ phase, step }) => phase === 'forward' && step === 3));
  await page.getByRole('searchbox').fill('phase:sideways');
  await page.getByText('there is no such phase').waitFor();
});

test('phases that the program recorded are not inferred', async ({ open }) => {
  const file = tagged('base');
  expect(new Set(phasesOf(file).map(({ told_by: by }) => by))).toEqual(new Set(['recorded']));
  const page = await open(`${await serving(file)}#view=overview`);
  await ready(page, 'overview');
  await card(page).getByText('Phases are recorded with the allocations.').waitFor();
});

test('without phases there is no card and no row', async ({ open }) => {
  const page = await open(`${await serving(segmentsOnly(), example('oom.pickle'))}#view=overview&file=1`);
  await ready(page, 'overview');
  await expect.poll(() => card(page).count()).toBe(0);
  await page.keyboard.press('p');
  expect(await spanOf(page)).toBeUndefined();
});
