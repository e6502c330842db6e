// The What-if view: custom settings and devices, the smallest GPU, compared with the command's answers.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { bytes, count } from '../src/text/units';
import { axe, violations } from './axe';
import { example, refusal, replay, report } from './command';
import { exact, numberOf, ready, serving, show, state, tableRows, test } from './page';
import { tab, user } from './user';

const OOM = example('oom.pickle');

const field = (page: Page, name: string) => page.getByRole('form', { name: 'What to replay' }).getByLabel(name);

/** Fills a field and waits for the answer. */
async function fill(page: Page, name: string, text: string): Promise<void> {
  await field(page, name).fill(text);
  await field(page, name).press('Enter');
  await page.locator('.whatif-view[aria-busy="false"]').waitFor();
}

/** Checks that the table matches the command with these options. */
async function equals(page: Page, ...options: string[]): Promise<void> {
  const { what_if } = replay(OOM, ...options).devices[0];
  await expect
    .poll(async () => (await tableRows(page, /^Settings/)).map((row) => [exact(row[1]!), row.at(-1)]))
    .toEqual(
      what_if.map((row: any) => [
        row.peak_reserved_bytes,
        row.oom_event !== null ? `fails at event ${count(row.oom_event)}` : row.fits === null ? 'no limit known' : 'fits',
      ]),
    );
}

test('a custom setting, a device and an overhead match the command', { timeout: 180_000 }, async ({ open }) => {
  const page = await open(await serving(OOM), { before: axe });
  await show(page, 'whatif');
  await equals(page);
  await fill(page, 'Custom setting', 'max_split_size_mb:64');
  await equals(page, '--conf', 'max_split_size_mb:64');
  await fill(page, 'Device size, GiB', '7.5');
  await equals(page, '--conf', 'max_split_size_mb:64', '--capacity', String(7.5 * 2 ** 30));
  await fill(page, 'Overhead, MiB', '600');
  await equals(page, '--conf', 'max_split_size_mb:64', '--capacity', String(7.5 * 2 ** 30), '--overhead', '600MiB');
  await fill(page, 'Custom setting', '');
  await equals(page, '--capacity', String(7.5 * 2 ** 30), '--overhead', '600MiB');
  await field(page, 'GPU').selectOption('rtx4060');
  await equals(page, '--gpu', 'rtx4060', '--overhead', '600MiB');
  await expect.poll(() => field(page, 'Device size, GiB').inputValue()).toBe('');
  expect(await violations(page)).toEqual([]);
  // The address stores everything.
  await expect.poll(() => state(page)).toMatchObject({ view: 'whatif', gpu: 'rtx4060', overhead: '600' });
  await page.reload();
  await ready(page, 'whatif');
  await expect.poll(() => field(page, 'GPU').inputValue()).toBe('rtx4060');
  await equals(page, '--gpu', 'rtx4060', '--overhead', '600MiB');
});

test("PyTorch's refusal of a setting has the words of the command", async ({ open }) => {
  const page = await open(await serving(OOM));
  await show(page, 'whatif');
  for (const conf of ['max_split_size_mb:2', 'no_such_setting:1', 'roundup_power2_divisions:3']) {
    await fill(page, 'Custom setting', conf);
    const words = (await page.locator('.field-wrong').textContent())!.trim();
    expect(words.length).toBeGreaterThan(10);
    const plain = (text: string) => text.replaceAll('`', '').replace(/\s+/g, ' ');
    expect(plain(refusal('replay', OOM, '--conf', conf))).toContain(plain(words));
    await expect.poll(() => field(page, 'Custom setting').getAttribute('aria-invalid')).toBe('true');
  }
  await fill(page, 'Custom setting', '');
  await expect.poll(() => page.locator('.field-wrong').count()).toBe(0);
  await fill(page, 'Device size, GiB', '1');
  await fill(page, 'Overhead, MiB', '2000');
  await page.locator('.field-wrong').getByText('leaves nothing of a device of 1.00 GiB').waitFor();
});

test('an unknown GPU is named', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=whatif&gpu=nonesuch`);
  await page.locator('.field-wrong').getByText('No known GPU is called nonesuch.').waitFor();
});

test('the smallest GPU is two steps away, and matches the command', async ({ open }) => {
  const page = await open(await serving(OOM));
  await show(page, 'whatif');
  await page.getByRole('button', { name: 'Find the smallest GPU' }).click();
  const told = replay(OOM, '--find-capacity').devices[0];
  const answer = page.locator('[data-gpu]');
  await answer.waitFor({ timeout: 60_000 });
  await expect.poll(() => answer.getAttribute('data-gpu')).toBe(told.smallest_gpu.name);
  await expect.poll(() => numberOf(page, '[data-gpu]', 'data-bytes')).toBe(told.smallest_capacity_bytes);
  const text = (await answer.textContent())!;
  for (const one of [told.smallest_gpu.name, told.smallest_gpu.driver_name, bytes(told.smallest_gpu.total_bytes)]) {
    expect(text).toContain(one);
  }
  // The command confirms that it fits on this GPU; another setting may lead to another GPU.
  const overhead = String(told.smallest_gpu.overhead_bytes);
  expect(replay(OOM, '--gpu', told.smallest_gpu.name, '--overhead', overhead).devices[0].replayed.fits).toBe(true);
  const row = page.getByRole('grid', { name: /^Settings/ }).locator('tr[data-row="0"]');
  await row.click();
  await page.getByRole('button', { name: 'Find the smallest GPU' }).click();
  await answer.waitFor({ timeout: 60_000 });
  const [conf] = replay(OOM).devices[0].what_if.map((one: any) => one.conf);
  const other = replay(OOM, '--find-capacity', '--conf', conf).devices[0];
  await expect.poll(() => numberOf(page, '[data-gpu]', 'data-bytes')).toBe(other.smallest_capacity_bytes);
});

test('if nothing fits, the page shows the closest setting and the missing bytes', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=whatif&capacity=5`);
  await ready(page, 'whatif');
  const { nearest, what_if } = replay(OOM, '--capacity', '5GiB').devices[0];
  expect(what_if.every((row: any) => row.oom_event !== null)).toBe(true);
  await page.getByRole('heading', { name: 'None of these settings makes the run fit.' }).waitFor();
  const head = (await page.locator('.whatif-view .panel-head').textContent())!;
  expect(head).toContain(
    `it fits on a device with ${bytes(nearest.missing_bytes)} more, ${bytes(nearest.needed_bytes)} in total`,
  );
  // The claim is true.
  const on = replay(OOM, '--capacity', String(nearest.needed_bytes), '--conf', nearest.conf).devices[0];
  expect(on.replayed.fits).toBe(true);
  // No tried setting needs less when there is enough memory.
  const enough = replay(OOM, '--capacity', '80GiB').devices[0].what_if.map((row: any) => row.peak_reserved_bytes);
  expect(nearest.needed_bytes - Math.min(...enough)).toBeLessThan(2 << 20);
});

test('a replay can be stopped', async ({ open }) => {
  const page = await open(await serving(OOM), {
    before: `addEventListener('click', (e) => e.target.textContent === 'Find the smallest GPU' &&
      new MutationObserver((_, watching) => {
        const stop = [...document.querySelectorAll('.whatif-side button')].find((one) => one.textContent === 'Stop');
        if (stop) (watching.disconnect(), stop.click());
      }).observe(document.body, { childList: true, subtree: true }), true)`,
  });
  await show(page, 'whatif');
  await page.getByRole('button', { name: 'Find the smallest GPU' }).click();
  const smallest = page.getByRole('region', { name: 'Smallest device' });
  await smallest.getByText('Stopped.').waitFor();
  await smallest.getByRole('button', { name: 'Continue' }).click();
  await page.locator('[data-gpu]').waitFor({ timeout: 60_000 });
});

/** The form of changes to the program. */
const changing = (page: Page, name: string) => page.getByRole('form', { name: 'Change to the program' }).getByLabel(name);

test('what half of the batch needs, and which GPU suffices: four steps', async ({ open }) => {
  const file = example('training.pickle.zst');
  const { page, step } = await user(open, 4, await serving(file), { before: axe });
  await step(tab(page, 'What-if'));
  await step(page.getByText('Changes to the program', { exact: true }).click());
  await step(changing(page, 'Change').selectOption('batch'));
  await step(page.getByRole('button', { name: 'Add change' }).click());
  const estimated = report(file, '--budget', '1GiB').devices[0];
  const half = estimated.estimates.changes.find(({ change }: { change: string }) => change === 'smaller_batch');
  await expect.poll(() => numberOf(page, '.program-estimate', 'data-peak')).toBe(half.peak_allocated_bytes);
  const cell = page.locator('.program-estimate').getByTitle(`${count(estimated.peak_allocated_bytes)} bytes`, { exact: true });
  expect(await cell.textContent()).toBe(bytes(estimated.peak_allocated_bytes));
  await page.getByText('vramscope fit --only allocator_conf --vary batch=LOW..HIGH -- COMMAND {batch}').waitFor();
  expect(await violations(page)).toEqual([]);
  // The address has the change.
  await expect.poll(async () => (await state(page))['marks']).toBe('batch=x0.5');
  await page.reload();
  await expect.poll(() => numberOf(page, '.program-estimate', 'data-peak')).toBe(half.peak_allocated_bytes);
});

test('several changes add up, one without an effect says why, and an invalid one is refused', async ({ open }) => {
  const page = await open(`${await serving(example('training.pickle.zst'))}#view=whatif&marks=category:activation%3Dx0.5`);
  await page.locator('.program-estimate').waitFor();
  const peak = () => numberOf(page, '.program-estimate', 'data-peak');
  const first = await peak();
  await changing(page, 'Part').selectOption('category:parameter');
  await changing(page, 'How').selectOption('x0.25');
  await page.getByRole('button', { name: 'Add change' }).click();
  await expect.poll(peak).toBeLessThan(first);
  await page.getByText('vramscope phantom run -- COMMAND  # of the changed program').waitFor();
  await page.getByRole('button', { name: 'Remove: category:parameter=x0.25' }).click();
  await expect.poll(peak).toBe(first);
  await changing(page, 'Part').selectOption('category:gradient');
  await changing(page, 'How').selectOption('free');
  await page.getByRole('button', { name: 'Add change' }).click();
  await page.getByText(/^category:gradient=free changes nothing: .* the recording has no accesses\.$/).waitFor();
  await page.getByRole('button', { name: 'Remove: category:gradient=free' }).click();
  await page.getByRole('button', { name: 'Remove: category:activation=x0.5' }).click();
  await page.locator('.program-estimate').waitFor({ state: 'detached' });
  await expect.poll(async () => (await state(page))['marks']).toBe(undefined);
});

test('a change that nobody understands is refused', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=whatif&marks=batch%3Dmelt`, { expected: /status of 400/ });
  await page.getByText('batch=melt: unknown change; use one of free, checkpoint, offload, x0.5').waitFor();
});
