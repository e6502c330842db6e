// The SQL console. Its answers come from the command's engine, which needs the feature `rollup`: `./test --rollup` runs these tests.

import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { command, example, scratch } from './command';
import { numberOf, panel, serving, servingAlone, servingRanks, show, state, tableRows, test } from './page';
import { skipping } from './skipping';
import { TRANSPORT, onlyServed } from './transport';
import { tab, user } from './user';

/** Whether the command has an SQL engine. */
const hasSql = spawnSync(command, ['query', 'SELECT 1', example('leak.pickle')]).status === 0;

type Skip = (condition: boolean, note: string) => void;

function needsSql(name: string, skip: Skip): void {
  onlyServed(skip, 'the SQL console');
  if (!hasSql) skipping('rollup', `SQL: ${name}`, (why) => skip(true, why));
}

const query = (sql: string, ...paths: string[]): Record<string, unknown>[] =>
  JSON.parse(execFileSync(command, ['query', sql, ...paths, '--format', 'json', '--no-cache'], { encoding: 'utf8' }));

const editor = (page: Page) => page.getByRole('textbox', { name: 'Query' });

async function run(page: Page, sql: string): Promise<void> {
  await editor(page).fill(sql);
  await editor(page).press('Control+Enter');
  await page.locator('.sql-view[aria-busy="false"]').waitFor();
}

const rows = (page: Page) => page.getByRole('grid', { name: 'Result' }).locator('tr[data-row]');

test('a page without an engine says what the console needs', async ({ open, skip }) => {
  skip(TRANSPORT === 'server' && hasSql, 'this page has an engine');
  const page = await open(`${await serving(example('leak.pickle'))}#view=sql`, { before: axe });
  const needed =
    TRANSPORT === 'worker' ? 'The console needs the served page: vramscope view FILE' : /cargo install .* --features rollup/;
  await panel(page).getByText(needed).waitFor();
  expect(await violations(page)).toEqual([]);
});

test('the line that allocates most, as SQL, and its largest allocation: three steps', async ({ open, skip }) => {
  needsSql('lines', skip);
  const { page, step } = await user(open, 3, await serving(example('leak.pickle')), { before: axe });
  await step(tab(page, 'SQL'));
  await step(page.getByRole('button', { name: 'Lines by allocated bytes' }).click());
  await page.locator('.sql-bars').waitFor();
  expect(await violations(page)).toEqual([]);
  const expected = query((await state(page))['sql']!, example('leak.pickle'));
  expect(await page.locator('.sql-bars li').count()).toBe(expected.length);
  expect(await page.locator('.sql-bar-label').first().textContent()).toBe(expected[0]!['line']);
  await step(page.locator('.sql-bars button').first().click());
  await expect.poll(async () => (await state(page))['selected']).toBe(String(expected[0]!['allocation']));
  // A link has the query and the chart.
  await page.reload();
  await page.locator('.sql-bars li').first().waitFor();
});

test('a result is sorted and saved, and queries are written with columns and earlier queries', async ({ open, skip }) => {
  needsSql('table', skip);
  const page = await open(`${await serving(example('leak.pickle'))}#view=sql`, { before: axe });
  const columns = page.getByRole('list', { name: 'Columns of allocations' });
  await page.getByText('allocations', { exact: true }).click();
  await editor(page).fill('SELECT  FROM allocations');
  await editor(page).press('Home');
  for (let i = 0; i < 'SELECT '.length; i += 1) await editor(page).press('ArrowRight');
  await columns.getByRole('button', { name: 'requested_bytes' }).click();
  expect(await editor(page).inputValue()).toBe('SELECT requested_bytes FROM allocations');
  const sql =
    'SELECT line, count(*) AS allocations, sum(block_bytes) AS bytes FROM allocations GROUP BY line ORDER BY bytes DESC';
  await run(page, sql);
  const expected = query(sql, example('leak.pickle'));
  const number = (value: unknown) => Number(value).toLocaleString('en-US');
  expect(await tableRows(page, 'Result')).toEqual(
    expected.map((row) => [row['line'], number(row['allocations']), `${number(row['bytes'])} bytes`]),
  );
  await page
    .getByRole('grid', { name: 'Result' })
    .getByRole('button', { name: /^allocations/ })
    .click();
  const most = Math.max(...expected.map((row) => Number(row['allocations'])));
  await expect.poll(async () => (await tableRows(page, 'Result'))[0]![1]).toBe(most.toLocaleString('en-US'));
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save query' }).click();
  await page.getByRole('menuitem', { name: /CSV/ }).click();
  const saved = readFileSync((await (await download).path())!, 'utf8')
    .trim()
    .split('\r\n');
  expect(saved[0]).toBe('line,allocations,bytes');
  expect(saved).toHaveLength(expected.length + 1);
  // Earlier queries are there after a reload, the newest first.
  await run(page, 'SELECT 7 AS n');
  await page.reload();
  await page.getByText('Earlier queries').click();
  const earlier = page.getByRole('list', { name: 'Earlier queries' }).getByRole('button');
  expect(await earlier.allTextContents()).toEqual(['SELECT 7 AS n', sql]);
  expect(await violations(page)).toEqual([]);
  await earlier.nth(1).click();
  await expect.poll(() => editor(page).inputValue()).toBe(sql);
});

test('a row selects its allocation, and the moment of its event', async ({ open, skip }) => {
  needsSql('a row selects', skip);
  const page = await open(`${await serving(example('leak.pickle'))}#view=sql`);
  await run(
    page,
    'SELECT allocation, alloc_event FROM allocations WHERE alloc_event IS NOT NULL ORDER BY block_bytes DESC, allocation LIMIT 5',
  );
  const [first] = query(
    'SELECT allocation, alloc_event FROM allocations WHERE alloc_event IS NOT NULL ORDER BY block_bytes DESC, allocation LIMIT 5',
    example('leak.pickle'),
  );
  await rows(page).first().click();
  await expect.poll(async () => (await state(page))['selected']).toBe(String(first!['allocation']));
  await expect.poll(async () => (await state(page))['moment']).toBe(String(Number(first!['alloc_event']) + 1));
  // With the keyboard, and from a line chart.
  await run(page, 'SELECT event, allocated_bytes FROM events ORDER BY event');
  await rows(page).nth(2).press('Enter');
  await expect.poll(async () => (await state(page))['moment']).toBe('3');
  await page.getByText('Line', { exact: true }).click();
  const events = query('SELECT count(*) AS n FROM events', example('leak.pickle'))[0]!['n'];
  await expect.poll(() => numberOf(page, '.sql-line svg', 'data-points')).toBe(events);
  await page.locator('.sql-line svg').click({ position: { x: 1, y: 20 } });
  await expect.poll(async () => Number((await state(page))['moment'])).toBeLessThan(10);
  // An interval.
  await run(page, 'SELECT 100 AS first_event, 199 AS last_event');
  await page.getByText('Table', { exact: true }).click();
  await rows(page).first().click();
  await expect.poll(async () => (await state(page))['span']).toBe('100.200');
});

test('errors have the position, statements that write are refused, and long results are cut', async ({ open, skip }) => {
  needsSql('errors', skip);
  const page = await open(`${await serving(example('leak.pickle'))}#view=sql`, { before: axe });
  for (const [sql, mark] of [
    ['CHOOSE rank', 'CHOOSE rank\n^'],
    ['SELECT event,\n  nothing\nFROM events', '  nothing\n  ^'],
    ['SELECT 1 FROM nowhere', 'SELECT 1 FROM nowhere\n              ^'],
  ] as const) {
    await run(page, sql);
    await expect.poll(() => page.locator('.sql-error pre').textContent()).toBe(mark);
  }
  expect(await violations(page)).toEqual([]);
  await run(page, "COPY (SELECT 1) TO '/tmp/out.csv'");
  await page.getByRole('alert').getByText('only queries that read are allowed').waitFor();
  await run(page, 'SELECT a.event, b.event FROM events a CROSS JOIN events b');
  await page.getByText('Only the first 10,000 rows').waitFor();
  expect(await numberOf(page, '.sql-view', 'data-rows')).toBe(10_000);
  // Two columns of the same name, and no number to draw.
  expect(await page.getByRole('grid', { name: 'Result' }).locator('th').allTextContents()).toEqual(['event', 'event (2)']);
  await run(page, "SELECT '<b>x</b>' AS name, NULL AS none");
  expect((await tableRows(page, 'Result'))[0]).toEqual(['<b>x</b>', '']);
  await page.getByText('Bars', { exact: true }).click();
  await page.getByText('A chart needs a column of numbers').waitFor();
});

test('a query can be stopped', async ({ open, skip }) => {
  needsSql('stopped', skip);
  const page = await open(`${await serving(example('leak.pickle'))}#view=sql`);
  await editor(page).fill(
    'SELECT count(*) FROM events a CROSS JOIN events b CROSS JOIN events c WHERE a.event + b.event + c.event < 0',
  );
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped.').waitFor();
  // The engine is free again.
  await run(page, 'SELECT 7 AS n');
  await expect.poll(() => tableRows(page, 'Result')).toEqual([['7']]);
});

test('rows of several recordings select theirs', async ({ open, skip }) => {
  needsSql('several', skip);
  const folder = scratch();
  const files = ['rank3.pickle', 'rank8.pickle'].map((name) => join(folder, name));
  copyFileSync(example('leak.pickle'), files[0]!);
  copyFileSync(example('oom.pickle'), files[1]!);
  const page = await open(`${await servingAlone(...files)}#view=sql`);
  const sql = "SELECT rank, device, event FROM events WHERE action = 'oom' ORDER BY event";
  await run(page, sql);
  const [oom] = query(sql, ...files);
  expect(oom!['rank']).toBe(8);
  await rows(page).first().click();
  await expect.poll(async () => (await state(page))['file']).toBe('1');
  await expect.poll(async () => (await state(page))['moment']).toBe(String(Number(oom!['event']) + 1));
  // Without its recording, a row selects nothing.
  await run(page, 'SELECT event FROM events ORDER BY event LIMIT 3');
  await rows(page).nth(1).click();
  await expect.poll(async () => (await state(page))['moment']).toBe(String(Number(oom!['event']) + 1));
});

test('all ranks of a job, before one is open', async ({ open, skip }) => {
  needsSql('ranks', skip);
  const folder = scratch();
  copyFileSync(example('leak.pickle'), join(folder, 'rank0.pickle'));
  copyFileSync(example('oom.pickle'), join(folder, 'rank1.pickle'));
  const page = await open(await servingRanks(folder), { draws: false });
  await page.locator('.ranks-view[data-ranks]').waitFor();
  await show(page, 'sql');
  const sql = 'SELECT rank, count(*) AS events FROM events GROUP BY rank ORDER BY rank';
  await run(page, sql);
  const expected = query(sql, folder).map((row) => [String(row['rank']), Number(row['events']).toLocaleString('en-US')]);
  await expect.poll(() => tableRows(page, 'Result')).toEqual(expected);
  // The rank is read when one of its rows is chosen.
  await run(page, 'SELECT rank, allocation, alloc_event FROM allocations WHERE rank = 1 AND alloc_event = 9');
  await rows(page).first().click();
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  await expect.poll(() => state(page)).toMatchObject({ file: 'rank1', moment: '10' });
});
