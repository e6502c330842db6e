// All ranks of a job: the findings, and the way from a rank to its recording.

import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example, fleet, jobOf, printed, scratch } from './command';
import { exact, numberOf, servingRanks, show, showsPeak, state, tableRows, test } from './page';
import { HOSTILE } from './recordings';
import { records, save } from './saving';
import { TRANSPORT } from './transport';

// A page without a server cannot show a job.
const only = test.runIf(TRANSPORT === 'server');

const NOTHING = { draws: false } as const;
const job = TRANSPORT === 'server' ? jobOf(64) : null!;
const told = TRANSPORT === 'server' ? fleet(job.folder) : null!;
let served: Promise<string> | null = null;

/** The page of the job, the same for all tests here. */
const address = () => (served ??= servingRanks(job.folder));

const map = (page: Page) => page.locator('.heat-map');
const rowOf = (rank: number) => told.ranks.find((one: { rank: number }) => one.rank === rank);
const usual = told?.ranks.find((one: any) => one.summary && !one.summary.oom && told.kinds[0].ranks.includes(one.rank)).rank;

/** Waits until the Overview shows a rank's recording. */
async function overviewOf(page: Page, rank: number): Promise<void> {
  await page.locator('.overview[aria-busy="false"]').waitFor();
  await showsPeak(page, rowOf(rank).summary.peak_allocated.bytes);
}

only('the first findings match the command, and each unusual rank is shown beside a usual one', async ({ open }) => {
  const page = await open(await address(), NOTHING);
  await page.locator('.different-rank').first().waitFor();
  const sentences = await page.getByRole('list', { name: 'Differences' }).getByRole('listitem').allTextContents();
  const text = printed('fleet', job.folder, '--no-cache').replace(/\s+/g, ' ');
  expect(sentences.length).toBeGreaterThan(3);
  // Names have another column width in the command's output.
  for (const sentence of sentences) expect(text).toContain(sentence.slice(0, 60));
  const shown = await page
    .locator('.different-rank')
    .evaluateAll((all) => all.map((one) => Number((one as HTMLElement).dataset['rank'])));
  const stage = shown.filter((rank) => job.larger_stage.includes(rank));
  expect(stage).toHaveLength(1);
  expect(shown.sort()).toEqual([...job.out_of_memory, job.leaks, ...stage].sort());
  const leaking = page.locator(`.different-rank[data-rank="${job.leaks}"]`);
  await expect.poll(() => leaking.textContent()).toContain(`Leak suspected on rank ${job.leaks}`);
  await expect.poll(() => page.locator('.small-failed').count()).toBe(2);
  // A page without a job has none of these parts.
  await expect.poll(() => page.getByRole('tab').allTextContents()).toEqual(['Ranks', 'SQL']);
});

only("the table has every rank with its summary's numbers, and the reason for an unread one", async ({ open }) => {
  const page = await open(await address(), NOTHING);
  await page.getByRole('grid', { name: 'Ranks' }).waitFor();
  const rows = await tableRows(page, 'Ranks');
  expect(rows).toHaveLength(64);
  const head = (await page.getByRole('grid', { name: 'Ranks' }).locator('th button').allTextContents()).map((t) => t.trim());
  const at = (name: string) => head.indexOf(name);
  for (const row of rows) {
    const rank = rowOf(Number(row[at('Rank')]));
    expect(row[at('Host')]).toBe(rank.host);
    expect(row[at('pp')]).toBe(String(rank.groups.pp));
    expect(row[at('File')]).toBe(rank.file);
    if (rank.summary) {
      expect(exact(row[at('Peak')]!)).toBe(rank.summary.peak_allocated.bytes);
      expect(exact(row[at('Reserved')]!)).toBe(rank.summary.peak_reserved.bytes);
      expect(row[at('Not read')]).toBe('');
    } else {
      expect(row[at('Not read')]).toBe(rank.unread_because);
      expect(row[at('Peak')]).toBe('–');
    }
    expect(row[at('Out of memory')] !== '–').toBe(job.out_of_memory.includes(rank.rank));
    expect(row[at('Leak')] !== '').toBe(rank.rank === job.leaks);
  }
});

only('ranks are ordered by number, kind or peak, and the order is in the address', async ({ open }) => {
  const page = await open(await address(), NOTHING);
  await map(page).waitFor();
  const order = async () => ((await map(page).getAttribute('data-order')) ?? '').split(' ').map(Number);
  expect(await order()).toEqual([...Array(64).keys()]);
  await page.getByRole('radio', { name: 'Peak' }).check();
  const read = (await order()).slice(0, 61);
  const peaks = read.map((rank) => rowOf(rank).summary.peak_allocated.bytes);
  expect(peaks).toEqual([...peaks].sort((a, b) => b - a));
  expect((await order()).slice(61).sort()).toEqual([...job.broken].sort());
  await expect.poll(async () => (await state(page))['rankorder']).toBe('peak');
  await page.getByRole('radio', { name: 'Kind' }).check();
  const kinds = (await order()).slice(0, 61).map((rank) => told.kinds.findIndex((kind: any) => kind.ranks.includes(rank)));
  expect(kinds).toEqual([...kinds].sort((a, b) => a - b));
  await expect.poll(async () => (await state(page))['rankorder']).toBe('kind');
  await page.reload();
  await expect.poll(() => page.getByRole('radio', { name: 'Kind' }).isChecked()).toBe(true);
});

only('the table is saved like other tables', async ({ open }) => {
  const page = await open(await address(), NOTHING);
  const button = page.getByRole('button', { name: 'Save ranks', exact: true });
  const { name, bytes } = await save(page, button, 'Table as CSV');
  expect(name).toBe('job-ranks.csv');
  const lines = records(bytes.toString());
  expect(lines).toHaveLength(65);
  expect(lines[0]!.join()).toMatch(/^rank,host,pp,kind,peak_allocated_bytes,/);
});

only('arrow keys move between ranks, and Enter opens the recording; Back returns', async ({ open }) => {
  const page = await open(await address(), NOTHING);
  await map(page).focus();
  for (let n = 0; n < job.leaks; n += 1) await page.keyboard.press('ArrowDown');
  await expect
    .poll(() => map(page).getAttribute('aria-valuetext'))
    .toMatch(new RegExp(`^rank ${job.leaks}: host host-\\d+, pp \\d, kind \\d`));
  await page.keyboard.press('Enter');
  await overviewOf(page, job.leaks);
  await expect.poll(async () => (await state(page))['file']).toBe(`rank${job.leaks}`);
  await page.goBack();
  await page.locator('.ranks-view').waitFor();
  await expect.poll(() => page.locator('.timeline-plot').count()).toBe(0);
  await page.goForward();
  await overviewOf(page, job.leaks);
  await page.reload();
  await overviewOf(page, job.leaks);
  await page.keyboard.press('1');
  await page.locator('.ranks-view').waitFor();
});

only('a click on the map, on a small timeline or on a row opens the rank; two are compared', async ({ open }) => {
  const page = await open(await address(), NOTHING);
  await map(page).locator('canvas').waitFor();
  const box = (await map(page).boundingBox())!;
  const height = await numberOf(page, '.heat-map', 'data-row-height');
  const top = await numberOf(page, '.heat-map', 'data-top');
  const [failed] = job.out_of_memory;
  const place = { x: box.x + box.width / 2, y: box.y + top + (failed + 0.5) * height };
  await page.mouse.move(place.x, place.y);
  await expect.poll(() => page.locator('.part-tooltip').innerText()).toContain(`Rank ${failed}`);
  await expect.poll(() => page.locator('.part-tooltip').innerText()).toContain('out of memory');
  await page.mouse.click(place.x, place.y);
  await overviewOf(page, failed);
  await page
    .getByRole('heading', { name: /out of memory/i })
    .first()
    .waitFor();
  await page.getByRole('tab', { name: 'Ranks' }).click();
  const leaking = page.locator(`.different-rank[data-rank="${job.leaks}"]`);
  await leaking.locator('.small-rank').first().click();
  await overviewOf(page, job.leaks);
  await page.getByRole('tab', { name: 'Ranks' }).click();
  await leaking.getByRole('button', { name: /^Compare/ }).click();
  await page.locator('.compare-view .growth[data-a]').waitFor();
  await expect.poll(() => page.locator('.small-title').count()).toBe(2);
  await expect.poll(() => page.locator('.small-title').last().textContent()).toContain(String(job.leaks).padStart(4, '0'));
  await page.getByRole('tab', { name: 'Ranks' }).click();
  await page.getByRole('grid', { name: 'Ranks' }).locator(`tr[data-row="${usual}"]`).click();
  await overviewOf(page, usual);
  // The report on the file itself.
  await showsPeak(page, rowOf(usual).file);
  await show(page, 'timeline');
});

only('a broken or missing file is reported in a line, and the ranks stay', async ({ open }) => {
  const gone = jobOf(8);
  const page = await open(await servingRanks(gone.folder), { ...NOTHING, expected: /422|Unprocessable/ });
  const broken = fleet(gone.folder).unread[0];
  await page.getByRole('grid', { name: 'Ranks' }).locator(`tr[data-row="${broken.rank}"]`).click();
  await page.getByText(`${broken.file}: ${broken.reason}`).first().waitFor();
  await page.locator('.ranks-view').waitFor();
  const there = fleet(gone.folder).ranks.find((rank: any) => rank.summary);
  rmSync(there.file);
  await page.goto(`${page.url().split('#')[0]}#view=moment&file=rank${there.rank}`);
  await page.reload();
  await page.getByRole('alert').getByText('No such file').waitFor();
  await page.locator('.ranks-view').waitFor();
});

only('names of hosts and files are text, whatever they contain', async ({ open }) => {
  const folder = scratch();
  const names = [HOSTILE.replaceAll('/', ''), '\u202egnp.exe\u2066', 'host "&<b>'];
  names.forEach((name, rank) => {
    const at = join(folder, `host-${rank}${name}`);
    mkdirSync(at);
    copyFileSync(example('leak.pickle'), join(at, `rank${rank}.pickle`));
  });
  const page = await open(await servingRanks(folder), NOTHING);
  await page.getByRole('grid', { name: 'Ranks' }).waitFor();
  await expect.poll(() => page.locator('#panel').innerText()).toContain('onerror=');
  expect(await page.title()).toBe('vramscope');
  await expect.poll(() => page.locator('#panel img, #panel script, #panel b b').count()).toBe(0);
  await page.getByRole('grid', { name: 'Ranks' }).locator('tr[data-row="0"]').click();
  await page.locator('.overview[aria-busy="false"]').waitFor();
  expect(await page.title()).toBe('vramscope');
});

only('only the files of the job are opened', async ({ open }) => {
  const page = await open(await address(), { ...NOTHING, expected: /40[03489]|Not Found|Bad Request/ });
  const ask = (path: string) => page.evaluate(async (path) => (await fetch(path, { method: 'POST' })).status, path);
  expect(await ask('api/64/read')).toBe(404);
  expect(await ask(`api/${encodeURIComponent('../../etc/passwd')}/read`)).toBe(400);
  expect(await ask('api/-1/read')).toBe(400);
});

only.for(['light', 'dark'] as const)(
  'nothing serious for people who use a keyboard or a screen reader, %s',
  async (colorScheme, { open }) => {
    const page = await open(await address(), { ...NOTHING, colorScheme, before: axe });
    await page.getByRole('grid', { name: 'Ranks' }).waitFor();
    expect(await violations(page)).toEqual([]);
  },
);
