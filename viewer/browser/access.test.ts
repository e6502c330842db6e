// Serious accessibility problems found by axe-core: keyboard, screen reader, contrast.

import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example } from './command';
import { VIEWS, serving, show, test } from './page';
import { segmentsOnly } from './recordings';

/** The color schemes, with the rules that depend on them. */
const SCHEMES = [
  { colorScheme: 'light', rules: [] },
  { colorScheme: 'dark', rules: ['color-contrast'] },
] as const;

test.for(SCHEMES)('nothing serious in any view, $colorScheme', async ({ colorScheme, rules }, { open }) => {
  const hash = 'selected=300&search=a&moment=1300&against=100';
  const page = await open(`${await serving(example('oom.pickle'), example('leak.pickle'))}#${hash}`, {
    colorScheme,
    before: axe,
  });
  const all: Record<string, string[]> = {};
  for (const view of VIEWS) {
    await show(page, view);
    all[view] = await violations(page, ...rules);
  }
  expect(all).toEqual(Object.fromEntries(VIEWS.map((view) => [view, []])));
  // Steps, regions and categories.
  const training = await open(`${await serving(example('training.pickle.zst'))}#view=overview`, { colorScheme, before: axe });
  await training.getByRole('heading', { name: '2 steps' }).waitFor();
  expect(await violations(training, ...rules)).toEqual([]);
  await show(training, 'steps');
  expect(await violations(training, ...rules)).toEqual([]);
});

test.for(SCHEMES)(
  'nothing serious in dialogs, messages and empty pages, $colorScheme',
  async ({ colorScheme, rules }, { open }) => {
    const options = { colorScheme, before: axe } as const;
    const page = await open(await serving(example('leak.pickle')), options);
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    expect(await violations(page, ...rules)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type('>=many');
    await page.getByRole('note').waitFor();
    await show(page, 'moment');
    await page.getByRole('button', { name: /^Save moment/ }).click();
    await page.getByRole('menu').waitFor();
    expect(await violations(page, ...rules)).toEqual([]);
    const bare = await open(await serving(), { ...options, draws: false });
    await bare.getByRole('heading', { name: 'No recording is open' }).waitFor();
    expect(await violations(bare, ...rules)).toEqual([]);
    const bareSegments = await open(await serving(segmentsOnly()), options);
    for (const view of ['state', 'whatif'] as const) {
      await show(bareSegments, view);
      expect(await violations(bareSegments, ...rules), view).toEqual([]);
    }
  },
);
