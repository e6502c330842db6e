// The steps view: outlines of steps over each other, and where each differs from one of them.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { bytes } from '../src/text/units';
import { example, report } from './command';
import { ready, serving, servingRanks, show, state, test } from './page';
import { segmentsOnly, training } from './recordings';
import { pictureTexts } from './saving';
import { TRANSPORT } from './transport';

const LARGER = 2;
const [SAME, DIFFERENT] = [training(4), training(4, LARGER)];

interface Phase {
  phase: string;
  step: number;
  first_event: number;
}

const told = (page: Page) => page.locator('.steps-told').textContent();
const row = (page: Page, title: string) => page.locator(`tr[data-step="${title}"]`);
const difference = (page: Page, title: string) => row(page, title).locator('td').nth(3).textContent();
const titles = (page: Page) => page.locator('tr[data-step] th').allTextContents();
/** Returns the lines' ends in the plot, in pixels. */
const lines = (page: Page) =>
  page.locator('.steps-line').evaluateAll((all) => all.map((line) => (line as SVGGraphicsElement).getBBox().x));

test('the step that differs, and the event, are named: no step', async ({ open }) => {
  const page = await open(`${await serving(DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  expect(await titles(page)).toEqual(['step 1', 'step 3', 'step 4']);
  expect(await told(page)).toBe('Step 3 differs from step 4. Step 1 has the outline of step 4.');
  const phases: Phase[] = report(DIFFERENT).devices[0].phases;
  const forward = phases.find(({ phase, step }) => phase === 'forward' && step === LARGER + 1)!.first_event;
  // The batch and the first layer are the same.
  expect(await difference(page, 'step 3')).toBe(
    `event ${forward + 1}, after 2 equal changes: +8.00 MiB at model.py:21 forward instead of +4.00 MiB at model.py:21 forward`,
  );
  expect(await difference(page, 'step 4')).toBe('the others are compared with it');
  expect(await difference(page, 'step 1')).toMatch(/^none in \d+ changes$/);
  await row(page, 'step 3')
    .getByRole('button', { name: `event ${forward + 1}` })
    .press('Enter');
  await expect.poll(async () => (await state(page))['moment']).toBe(String(forward + 2));
});

test("the table has the report's figures", async ({ open }) => {
  const { steps } = report(DIFFERENT).devices[0].steps;
  const page = await open(`${await serving(DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  for (const n of [0, 2, 3]) {
    const cells = await row(page, `step ${n + 1}`)
      .locator('td')
      .allTextContents();
    expect(cells.slice(0, 2)).toEqual([bytes(steps[n].peak_allocated_bytes), bytes(steps[n].allocated_bytes)]);
  }
});

test('steps are added, compared with another, aligned at a phase and removed', async ({ open }) => {
  const page = await open(`${await serving(DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  await page.getByRole('spinbutton', { name: 'Add step' }).fill('2');
  await page.keyboard.press('Enter');
  await expect.poll(() => titles(page)).toEqual(['step 1', 'step 3', 'step 4', 'step 2']);
  await page.getByRole('combobox', { name: 'Compare with' }).selectOption({ label: 'step 3' });
  await expect.poll(() => told(page)).toBe('Step 1; step 4 and step 2 differ from step 3.');
  // From the optimizer on, all are the same.
  await page.getByRole('combobox', { name: 'Align at' }).selectOption({ label: 'the optimizer' });
  await expect.poll(() => told(page)).toBe('Step 1; step 4 and step 2 have the outline of step 3.');
  await row(page, 'step 1').getByRole('button', { name: 'Remove step 1' }).press('Enter');
  await expect.poll(() => titles(page)).toEqual(['step 3', 'step 4', 'step 2']);
  // The address stores all of it.
  await expect.poll(() => state(page)).toMatchObject({ align: 'optimizer', steps: '0.0.2-0.0.3-0.0.1', reference: '0' });
  await page.reload();
  await ready(page, 'steps');
  expect(await told(page)).toBe('Step 4 and step 2 have the outline of step 3.');
  await page.getByRole('button', { name: 'Show the usual steps' }).click();
  await expect.poll(() => titles(page)).toEqual(['step 1', 'step 3', 'step 4']);
});

test('lines begin at the aligned event, on both axes', async ({ open }) => {
  const page = await open(`${await serving(DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  expect(await lines(page)).toEqual([0, 0, 0]);
  await page.locator('.steps-view').getByRole('combobox', { name: 'Along' }).selectOption('time');
  await expect.poll(() => page.locator('.steps-lines').getAttribute('aria-busy')).toBe('false');
  expect((await lines(page)).every((x) => x < 2)).toBe(true);
});

test('a step of another recording', async ({ open }) => {
  const page = await open(`${await serving(SAME, DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  const [first, second] = [SAME, DIFFERENT].map((file) => file.split('/').at(-1));
  await page.getByRole('combobox', { name: 'of', exact: true }).selectOption({ label: second! });
  await page.getByRole('spinbutton', { name: 'Add step' }).fill('3');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const title = `step 3, ${second}`;
  await row(page, title).waitFor();
  await expect.poll(() => told(page)).toContain(`Step 3, ${second} differs from step 3, ${first}`);
  await expect.poll(() => difference(page, title)).toContain('after 2 equal changes: +8.00 MiB at model.py:21 forward');
});

test('the picture is saved with the names of the steps', async ({ open }) => {
  const page = await open(`${await serving(DIFFERENT)}#view=steps`);
  await ready(page, 'steps');
  const texts = await pictureTexts(page, page.getByRole('button', { name: 'Save steps' }));
  expect(texts[0]).toContain('allocated bytes of steps');
  expect(texts).toEqual(expect.arrayContaining(['Steps:', 'step 1', 'step 3', 'step 4']));
  expect(texts.join()).toContain('Horizontal: events from the start of the step.');
});

test('without steps the view says so', async ({ open }) => {
  const page = await open(await serving(segmentsOnly()));
  await show(page, 'steps');
  await page.getByRole('heading', { name: 'No steps were found.' }).waitFor();
});

test.runIf(TRANSPORT === 'server')('a step of another rank, whose recording is then read', async ({ open }) => {
  const page = await open(await servingRanks(example('fleet')), { draws: false });
  const table = page.getByRole('grid', { name: 'Ranks' });
  await table.waitFor();
  await page.evaluate(() => (location.hash = 'view=steps&file=rank0'));
  await ready(page, 'steps');
  await page.getByRole('combobox', { name: 'of', exact: true }).selectOption({ label: 'rank 3' });
  const number = page.getByRole('spinbutton', { name: 'Add step' });
  await expect.poll(() => number.getAttribute('max')).not.toBe('1');
  await number.fill('2');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await expect.poll(async () => (await titles(page)).some((title) => /^step 2, .*rank3/.test(title))).toBe(true);
  await ready(page, 'steps');
  // The address names the rank's recording, which is read again.
  await expect.poll(async () => (await state(page))['steps']).toMatch(/-3\.0\.1$/);
  await page.reload();
  await ready(page, 'steps');
  await expect.poll(async () => (await titles(page)).some((title) => /^step 2, .*rank3/.test(title))).toBe(true);
});
