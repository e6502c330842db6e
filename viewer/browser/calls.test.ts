// The transforms of the call tree: a user's tasks, step by step. The expected bytes are those of the recording below, added by hand.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example } from './command';
import { exact, numberOf, panel, plotBox, redrawn, serving, show, state, tableRows, test } from './page';
import { write } from './recordings';
import { tab, user } from './user';

const MIB = 1 << 20;
const TORCH = '/env/lib/python3.11/site-packages/torch/nn/linear.py';

type Frame = [file: string, line: number, name: string];
const main = (line: number): Frame => ['/home/user/train.py', line, 'main'];
const forward = (line: number): Frame => ['/home/user/model.py', line, 'forward'];
const torch = (line: number): Frame => [TORCH, line, 'linear'];
const addmm: Frame = ['??', 0, 'at::native::addmm(at::Tensor)'];
const empty: Frame = ['??', 0, 'at::empty(int)'];

/** Allocations, each with its MiB and its stack, outermost first. */
const ALLOCATIONS: [number, Frame[]][] = [
  [100, [main(10), forward(20), torch(5), torch(9), addmm, empty]],
  [50, [main(11), forward(21), torch(5), addmm, empty]],
  [30, [main(12), ['/home/user/data.py', 7, 'load']]],
  [20, [main(10), forward(20), forward(22), torch(5)]],
];

const recorded = () => {
  const events = ALLOCATIONS.map(([mib, stack], i) => {
    const frames = [...stack].reverse().map(([filename, line, name]) => ({ filename, line, name }));
    return { addr: 0x7f0000000000 + i * 2 ** 30, size: mib * MIB, stream: 0, frames };
  });
  const device = events.flatMap((event) => [
    { action: 'segment_alloc', ...event },
    { action: 'alloc', ...event },
  ]);
  return write('calls.json', { segments: [], device_traces: [device] });
};
const FILE = recorded();

/** The rows of the call tree as [level, call, total MiB, self MiB]. */
const tree = async (page: Page): Promise<[number, string, number, number][]> => {
  const grid = page.getByRole('treegrid', { name: /^Call tree/ });
  const levels = await grid
    .locator('tr[data-row]')
    .evaluateAll((rows) => rows.map((row) => Number(row.getAttribute('aria-level'))));
  const cells = await grid
    .locator('tr[data-row]')
    .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.title)));
  return cells.map(([call, total, self], i) => [levels[i]!, call!, exact(total!) / MIB, exact(self!) / MIB]);
};

const row = (page: Page, name: string) =>
  page
    .getByRole('treegrid', { name: /^Call tree/ })
    .locator('tr', { hasText: name })
    .first();
const calls = (page: Page, name: string) =>
  page.getByRole('group', { name: 'Calls' }).getByRole('radio', { name }).check({ force: true });
const asTable = (page: Page) =>
  page.getByRole('group', { name: 'Show as' }).getByRole('radio', { name: 'Table' }).check({ force: true });
const chips = (page: Page) =>
  page.getByRole('group', { name: 'Transforms of the call tree' }).locator('.transform-text').allTextContents();

test('the memory without the loader, in every view: five steps', async ({ open }) => {
  const { page, step } = await user(open, 5, await serving(FILE));
  await step(tab(page, 'Moment'));
  await step(asTable(page));
  await expect
    .poll(() => tree(page))
    .toEqual([
      [1, 'all allocated', 200, 0],
      [2, 'train.py:10 main', 120, 0],
      [3, 'model.py:20 forward', 120, 100],
      [4, 'model.py:22 forward', 20, 20],
      [2, 'train.py:11 main', 50, 0],
      [2, 'train.py:12 main', 30, 0],
    ]);
  await step(row(page, 'train.py:12 main').press('ArrowRight'));
  await step(row(page, 'data.py:7 load').click({ button: 'right' }));
  await redrawn(page, () => step(page.getByRole('menuitem', { name: 'Without allocations through load (data.py)' }).click()));
  expect(await chips(page)).toEqual(['Without load (data.py)']);
  await expect.poll(async () => (await tree(page))[0]).toEqual([1, 'all allocated', 170, 0]);
  await expect.poll(() => numberOf(page, '.moment-view', 'data-found')).toBe(170 * MIB);
  await page.getByText('170.00 MiB of 200.00 MiB match').waitFor();
  // The table of groups, the allocations and the comparison have the same allocations.
  expect((await tableRows(page, 'Allocated by line')).map(([line]) => line)).not.toContain('data.py:7 load');
  await show(page, 'allocations');
  await expect.poll(() => panel(page).textContent()).toMatch(/3 .*170\.00 MiB/);
  // The address has it, and so has a reloaded page.
  await expect
    .poll(async () => JSON.parse((await state(page))['transforms'] ?? 'null'))
    .toEqual([{ does: 'drop', frames: { of: 'function', name: 'load', file: 'data.py' } }]);
  await page.reload();
  await expect.poll(() => chips(page)).toEqual(['Without load (data.py)']);
  await show(page, 'moment');
  await expect.poll(() => numberOf(page, '.moment-view', 'data-found')).toBe(170 * MIB);
  // The search adds to it.
  await page.getByRole('searchbox').fill('>=40MiB');
  await page.locator('#search-result [data-matches="2"]').waitFor();
  await page.getByRole('searchbox').fill('');
  await page.locator('#search-result [data-matches="3"]').waitFor();
  await page.getByRole('button', { name: 'Remove: Without load (data.py)' }).click();
  await expect.poll(async () => (await tree(page))[0]).toEqual([1, 'all allocated', 200, 0]);
  await expect.poll(async () => (await state(page))['transforms']).toBe(undefined);
});

test('where a library allocates, as one frame that expands: four steps', async ({ open }) => {
  const { page, step } = await user(open, 4, `${await serving(FILE)}#view=moment&tree=table`);
  // Each library becomes one frame; the tree then has all calls.
  await step(page.getByRole('checkbox', { name: 'Libraries collapsed' }).check());
  await row(page, 'torch').waitFor();
  for (const name of ['torch', 'train.py:11 main', 'model.py:21 forward']) {
    const at = row(page, name);
    if ((await at.getAttribute('aria-expanded')) === 'false') await at.press('ArrowRight');
  }
  await expect
    .poll(async () => (await tree(page)).map(([level, call]) => `${level} ${call}`))
    .toEqual([
      '1 all allocated',
      '2 train.py:10 main',
      '3 model.py:20 forward',
      '4 torch',
      '5 at::',
      '4 model.py:22 forward',
      '2 train.py:11 main',
      '3 model.py:21 forward',
      '4 torch',
      '2 train.py:12 main',
    ]);
  await expect.poll(async () => (await state(page))['calls']).toBe('all');
  // One library shows its frames.
  await step(row(page, 'torch').press('e'));
  await expect.poll(() => chips(page)).toEqual(['Libraries collapsed, except torch']);
  await row(page, 'torch/nn/linear.py:5 linear').waitFor();
  // Merged into the user's code, its bytes stay.
  await step(row(page, 'torch/nn/linear.py:5 linear').press('Shift+M'));
  await expect.poll(async () => (await tree(page)).some(([, call]) => call.startsWith('torch'))).toBe(false);
  expect((await tree(page))[0]).toEqual([1, 'all allocated', 200, 0]);
  await expect.poll(() => page.locator('.moment-view').getAttribute('data-found')).toBe(null);
  // All of it is undone.
  await step(page.getByRole('button', { name: 'Remove all' }).click());
  expect(await chips(page)).toEqual([]);
});

test('the recursion of a function, with keys alone', async ({ open }) => {
  const page = await open(`${await serving(FILE)}#view=moment`, { before: axe });
  await show(page, 'moment');
  const flame = page.getByRole('application', { name: /^Call tree/ });
  const told = page.locator('.flame [aria-live]');
  await flame.focus();
  for (const name of ['train.py:10 main', 'model.py:20 forward']) {
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => told.textContent()).toContain(name);
  }
  await page.keyboard.press('r');
  await expect.poll(() => chips(page)).toEqual(['Recursion of forward (model.py) collapsed']);
  await page.locator('.moment-view[aria-busy="false"]').waitFor();
  await page.keyboard.press('Home');
  for (const name of ['train.py:10 main, allocated 120.00 MiB', 'forward (model.py), allocated 120.00 MiB']) {
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => told.textContent()).toContain(name);
  }
  // The menu lists the transforms with their keys; Escape gives the focus back.
  await page.keyboard.press('Shift+F10');
  const menu = page.getByRole('menu', { name: /^Transforms of forward/ });
  await menu.waitFor();
  expect(await violations(page)).toEqual([]);
  await expect.poll(() => menu.getByRole('menuitem').allTextContents()).toContain('Expand forward (model.py) e');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Escape');
  await menu.waitFor({ state: 'hidden' });
  expect(await flame.evaluate((element) => element === document.activeElement)).toBe(true);
  // A call path alone: the other call of main is gone from the timeline too.
  await page.keyboard.press('Shift+F');
  await expect.poll(() => chips(page)).toEqual(['Recursion of forward (model.py) collapsed', 'Only below forward (model.py)']);
  await expect.poll(() => numberOf(page, '.moment-view', 'data-found')).toBe(120 * MIB);
  // The help lists the keys.
  await page.keyboard.press('?');
  await page.getByRole('searchbox', { name: 'Find a key' }).fill('recursion');
  await page.getByRole('dialog').getByText('Collapse the recursion of the function').waitFor();
});

test('the transforms of both forms of the tree are accessible', async ({ open }) => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await open(`${await serving(example('training.pickle.zst'))}#view=moment&tree=table`, {
      colorScheme,
      before: axe,
    });
    await show(page, 'moment');
    await page.getByRole('checkbox', { name: 'Libraries collapsed' }).check();
    await page.getByRole('treegrid').waitFor();
    await calls(page, 'Python');
    await page.locator('.moment-view[aria-busy="false"]').waitFor();
    expect(await violations(page)).toEqual([]);
  }
});

test('an inverted tree of two moments has the changes of lines', async ({ open }) => {
  const page = await open(`${await serving(FILE)}#view=moment&tree=table&inverted=1&against=2`);
  await show(page, 'moment');
  await page.getByRole('treegrid', { name: 'Call tree, inverted' }).waitFor();
  // The first block was there at moment 2; the others came later.
  await expect.poll(() => tree(page)).toContainEqual([2, 'model.py:21 forward', 50, 50]);
  expect(await tree(page)).toContainEqual([2, 'model.py:20 forward', 0, 0]);
  expect((await plotBox(page)).width).toBeGreaterThan(0);
});
