// Recordings with missing or strange parts: every view shows what exists.

import { expect } from 'vitest';
import { actionWords } from '../src/views/state/event-list';
import { ACTIONS } from '../src/source/source';
import { example } from './command';
import { EVERY_ACTION, everyAction, odd } from './odd';
import { looksWhole } from './whole';
import { VIEWS, panel, serving, show, test } from './page';
import { meddle } from './transport';

const recordings = odd();

test('a file without a device says so', async ({ open }) => {
  const address = await serving(recordings['without a device']!);
  const page = await open(address, { draws: false });
  for (const view of VIEWS) {
    await page.goto('about:blank');
    await page.goto(`${address}#view=${view}`);
    await page.getByText('This file has no device data').waitFor();
  }
});

test('a failing view says so, and the others work', async ({ open }) => {
  const page = await open(`${await serving(example('leak.pickle'))}#view=timeline`, { expected: /TypeError/ });
  await meddle(page, { kind: 'report', answer: [2, 0, 0, 0, 0x7b, 0x7d, 0, 0] });
  await page.getByRole('tab', { name: 'Overview' }).click();
  const failed = panel(page).getByRole('alert');
  await expect.poll(() => failed.textContent()).toMatch(/^This view cannot show this: .*vramscope report FILE/);
  await failed.getByRole('button', { name: 'Try again' }).click();
  await failed.waitFor();
  for (const view of VIEWS.filter((view) => view !== 'overview')) {
    await show(page, view);
    await looksWhole(page, view);
  }
});

test('events have the names from the file', async ({ open }) => {
  const page = await open(`${await serving(everyAction())}#view=state`);
  await show(page, 'state');
  const shown = panel(page).getByRole('option').locator('.event-action');
  const expected = EVERY_ACTION.map((name) =>
    name === 'oom' ? 'out of memory' : name === 'frobnicate' ? 'unknown' : name.replaceAll('_', ' '),
  );
  await expect.poll(() => shown.allTextContents()).toEqual(expected);
  expect(new Set(ACTIONS.map(actionWords)).size).toBe(EVERY_ACTION.length);
});
