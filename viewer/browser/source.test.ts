// Source files beside the memory of their lines: a user's tasks, step by step. The expected bytes are those of the recording below.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example, report, scratch } from './command';
import { panel, serving, state, test } from './page';
import { write } from './recordings';
import { TRANSPORT } from './transport';
import { tab, user } from './user';

const MIB = 1 << 20;

type Frame = [file: string, line: number, name: string];
const main = (line: number): Frame => ['/build/7/job/train.py', line, 'main'];
const model = (line: number): Frame => ['/build/7/job/net/model.py', line, 'forward'];

/** Allocations, each with its MiB and its stack, outermost first; then the second is freed. */
const ALLOCATIONS: [number, Frame[]][] = [
  [100, [main(2), model(3)]],
  [50, [main(2), model(4)]],
  [30, [main(3)]],
];

const recorded = () => {
  const events = ALLOCATIONS.map(([mib, stack], i) => {
    const frames = [...stack].reverse().map(([filename, line, name]) => ({ filename, line, name }));
    return { addr: 0x7f0000000000 + i * 2 ** 30, size: mib * MIB, stream: 0, frames };
  });
  const device = [
    ...events.flatMap((event) => [
      { action: 'segment_alloc', ...event },
      { action: 'alloc', ...event },
    ]),
    { action: 'free_completed', ...events[1], frames: [] },
  ];
  return write('lines.json', { segments: [], device_traces: [device] });
};
const FILE = recorded();

/** A folder with these files, each with its text. */
function folder(files: Record<string, string>): string {
  const dir = scratch();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(dir, name, '..'), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return dir;
}

const TRAIN = 'def main():\n    net(x)\n    load()\n';
const MODEL = 'class Net:\n    def forward(self, x):\n        a = x @ self.w\n        return a.relu()\n';

/** The lines as [live, own, allocated, allocations, findings, line, text]. */
const lines = (page: Page): Promise<string[][]> =>
  page
    .getByRole('listbox', { name: 'Source lines' })
    .getByRole('option')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent ?? '')));

const chosen = (page: Page) => page.getByRole('listbox', { name: 'Source lines' }).getByRole('option', { selected: true });

const ready = (page: Page) => page.locator('.source-view[aria-busy="false"]').waitFor();

test.skipIf(TRANSPORT === 'worker')('the source of the line that holds most: three steps', async ({ open }) => {
  const dir = folder({ 'train.py': TRAIN, 'net/model.py': MODEL, 'other/train2.py': '' });
  const { page, step } = await user(open, 3, await serving('--source', dir, FILE), { before: axe });
  await step(tab(page, 'Moment'));
  await step(page.getByRole('button', { name: 'Show the source of net/model.py:3 forward' }).click());
  await ready(page);
  await page.getByText(`${join(dir, 'net/model.py')}: 2 of 5 parts of the recorded path match.`).waitFor();
  expect(await lines(page)).toEqual([
    ['', '', '', '', '', '1', 'class Net:'],
    ['', '', '', '', '', '2', '    def forward(self, x):'],
    ['100.00 MiB', '100.00 MiB', '100.00 MiB', '1', 'holder 1', '3', '        a = x @ self.w'],
    ['50.00 MiB', '50.00 MiB', '50.00 MiB', '1', 'holder 2', '4', '        return a.relu()'],
  ]);
  await expect.poll(() => chosen(page).textContent()).toContain('self.w');
  // The next hot line, with the keyboard.
  await step(page.getByRole('listbox', { name: 'Source lines' }).press('h'));
  await expect.poll(() => chosen(page).textContent()).toContain('a.relu()');
  await page.getByText('2 of 2 lines with memory').waitFor();
  expect(await violations(page)).toEqual([]);
  await expect.poll(async () => (await state(page))['line']).toBe('4');
  // The moment and the search apply.
  await page.getByRole('searchbox').fill('>=60MiB');
  await expect.poll(async () => (await lines(page))[3]![0]).toBe('');
  await page.getByRole('searchbox').fill('');
  await page.reload();
  await expect.poll(async () => (await lines(page).catch(() => []))[2]?.[0]).toBe('100.00 MiB');
});

test.skipIf(TRANSPORT === 'worker')(
  'the source of a call in the flame graph, with the bytes of each line: three steps',
  async ({ open }) => {
    const { page, step } = await user(open, 3, await serving('--source', folder({ 'net/model.py': MODEL }), FILE));
    await step(tab(page, 'Moment'));
    await page.locator('.moment-view:not([aria-busy="true"])').waitFor();
    // The third row has the calls of main, the largest first.
    await step(page.getByRole('application', { name: /^Call tree/ }).click({ button: 'right', position: { x: 40, y: 50 } }));
    await step(page.getByRole('menuitem', { name: 'Show the source' }).click());
    await ready(page);
    expect(await lines(page)).toEqual([
      ['', '', '', '', '', '1', 'class Net:'],
      ['', '', '', '', '', '2', '    def forward(self, x):'],
      ['100.00 MiB', '100.00 MiB', '100.00 MiB', '1', 'holder 1', '3', '        a = x @ self.w'],
      ['50.00 MiB', '50.00 MiB', '50.00 MiB', '1', 'holder 2', '4', '        return a.relu()'],
    ]);
    await expect.poll(() => chosen(page).textContent()).toContain('self.w');
  },
);

test.skipIf(TRANSPORT === 'worker')('a file among several of its name, and none outside of the folder', async ({ open }) => {
  const secret = folder({ 'model.py': 'secret = 1\n' });
  const dir = folder({ 'a/model.py': '# a\n', 'b/model.py': '# b\n' });
  symlinkSync(join(secret, 'model.py'), join(dir, 'train.py'));
  symlinkSync(secret, join(dir, 'net'));
  const page = await open(`${await serving('--source', dir, FILE)}#view=source`);
  await ready(page);
  // The list of files, the most live bytes first.
  const files = page.getByRole('grid', { name: /^Files with memory/ });
  await expect.poll(() => files.locator('tr[data-row] td:first-child').allTextContents()).toEqual(['train.py', 'net/model.py']);
  await files.locator('tr', { hasText: 'net/model.py' }).click();
  const choices = page.getByRole('group', { name: 'Files that match equally well' });
  await choices.getByRole('button', { name: join(dir, 'b/model.py') }).click();
  await expect.poll(async () => (await lines(page))[0]).toEqual(['', '', '', '', '', '1', '# b']);
  await expect.poll(async () => (await state(page))['choice']).toBe('1');
  // Links are not followed.
  await page.getByRole('button', { name: 'All files' }).click();
  await files.locator('tr', { hasText: 'train.py' }).click();
  await page.getByText(/^No file in .* has the name of \/build\/7\/job\/train\.py\.$/).waitFor();
  await expect.poll(() => panel(page).textContent()).not.toContain('secret');
});

test('without a folder, or without a server, lines have their memory alone', async ({ open }) => {
  const page = await open(`${await serving(FILE)}#view=source`, { before: axe });
  await page
    .getByRole('grid', { name: /^Files with memory/ })
    .locator('tr', { hasText: 'train.py' })
    .press('Enter');
  await page.getByText(/vramscope view --source DIR FILE/).waitFor();
  await ready(page);
  expect(await lines(page)).toEqual([
    ['150.00 MiB', '', '150.00 MiB', '2', '', '2', ''],
    ['30.00 MiB', '30.00 MiB', '30.00 MiB', '1', 'holder 3', '3', ''],
  ]);
  expect(await violations(page)).toEqual([]);
});

test('the leaks of the report are at their lines: three steps', async ({ open }) => {
  const { page, step } = await user(open, 3, `${await serving(example('leak.pickle'))}#view=source`);
  const [leak] = report(example('leak.pickle')).devices[0].leaks;
  const files = page.getByRole('grid', { name: /^Files with memory/ });
  await step(files.locator('tr', { hasText: 'workloads.py' }).first().click());
  await ready(page);
  await step(page.getByRole('option', { name: /leak 1/ }).click());
  await step(page.getByRole('button', { name: /may leak/ }).click());
  await page.locator(`[data-matches="${leak.kept}"]`).waitFor();
});
