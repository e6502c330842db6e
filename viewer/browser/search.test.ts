// The search box: its matches equal a plain count over all allocations.

import { expect } from 'vitest';
import { allocations, frames } from './asking';
import { example } from './command';
import { answering, legend, numberOf, serving, state, test } from './page';
import { known } from './recordings';

const LEAK = example('leak.pickle');
const MIB = 1 << 20;

test('counts and bytes match a plain count over the recording', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(await serving(file));
  const box = page.getByRole('searchbox');
  const some = made[7]!;
  const queries: [string, (m: (typeof made)[number]) => boolean][] = [
    ['layer2', (m) => m.line === 12],
    ['model.py:11', (m) => m.line === 11],
    ['file:train.py', () => true],
    ['function:layer3 model', (m) => m.line === 13],
    ['"model.py:10 layer0"', (m) => m.line === 10],
    ['>=30MiB', (m) => m.bytes >= 30 * MIB],
    ['>26MiB <32MiB', (m) => m.bytes > 26 * MIB && m.bytes < 32 * MIB],
    [`0x${(some.address + 512).toString(16)}`, (m) => m === some],
    [`b${some.address.toString(16)}_0`, (m) => m === some],
    [`b'${some.address.toString(16)}_0'`, (m) => m === some],
    [`b${some.address.toString(16)}_1`, () => false],
    [`s${some.address.toString(16)}_4`, (m) => m === some],
    ['stream:2', (m) => m.stream === 2],
    ['stream:1 layer1', (m) => m.stream === 1 && m.line === 11],
    ['nothing-is-called-so', () => false],
    ['28MiB', (m) => m.bytes === 28 * MIB],
    ['=28.1MiB', (m) => m.bytes === 28 * MIB],
    ['=28.2MiB', () => false],
    ['layer1 OR layer2', (m) => m.line === 11 || m.line === 12],
    ['(layer1 OR layer2) -stream:1', (m) => (m.line === 11 || m.line === 12) && m.stream !== 1],
    ['NOT /layer[12]/', (m) => m.line !== 11 && m.line !== 12],
    ['line:model.py:11', (m) => m.line === 11],
    ['line:train.py', () => false],
    ['freed:never', (m) => made.indexOf(m) % 2 === 0],
    // An even allocation has two events, an odd one four; the second of them allocates.
    ['allocated:<=7', (m) => made.indexOf(m) < 3],
    ['freed:<5', (m) => m === made[1]],
  ];
  for (const [text, matches] of queries) {
    const all = made.filter(matches);
    await box.fill(text);
    await page.locator(`[data-matches="${all.length}"][data-bytes="${all.reduce((n, m) => n + m.bytes, 0)}"]`).waitFor();
  }
  await box.fill('');
  await expect.poll(() => page.locator('[data-matches]').count()).toBe(0);
});

test('so do those of a PyTorch recording', async ({ open }) => {
  const source = await answering(LEAK);
  const all = await allocations(source);
  const names = await source.names(0);
  const page = await open(await serving(LEAK));
  const texts = ['forward', 'linear', 'backward', 'main'];
  const lower = (stack: number | null) => frames(names, stack).join('\n').toLowerCase();
  for (const text of texts) {
    const found = all.filter((a) => lower(a.stack).includes(text));
    await page.getByRole('searchbox').fill(text);
    await page.locator(`[data-matches="${found.length}"]`).waitFor();
    await expect.poll(() => numberOf(page, '[data-matches]', 'data-bytes')).toBe(found.reduce((n, a) => n + a.bytes, 0));
  }
  for (const size of [513, 1 << 20]) {
    await page.getByRole('searchbox').fill(`>=${size}`);
    await page.locator(`[data-matches="${all.filter((a) => a.bytes >= size).length}"]`).waitFor();
  }
  const { address } = all[100]!;
  const over = all.filter((a) => a.address <= address && address < a.address + a.bytes);
  await page.getByRole('searchbox').fill(`0x${address.toString(16)}`);
  await page.locator(`[data-matches="${over.length}"]`).waitFor();
});

test('Enter selects the largest match, then the next; Shift Enter goes back', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=timeline`);
  const box = page.getByRole('searchbox');
  await box.fill('layer1');
  const sizes = made
    .filter((m) => m.line === 11)
    .map((m) => m.bytes)
    .sort((a, b) => b - a);
  await page.locator(`[data-matches="${sizes.length}"]`).waitFor();
  const seen: string[] = [];
  const details = page.locator('aside[data-selected]');
  for (let i = 0; i < sizes.length; i += 1) {
    await box.press('Enter');
    await expect.poll(() => page.locator('[data-matches]').textContent()).toContain(`${i + 1} of ${sizes.length}`);
    await expect
      .poll(async () => (await details.count()) > 0 && !seen.includes((await details.getAttribute('data-selected'))!))
      .toBe(true);
    seen.push((await details.getAttribute('data-selected'))!);
    await expect
      .poll(() => details.locator('dd[title$=" bytes"]').first().getAttribute('title'))
      .toBe(`${sizes[i]!.toLocaleString('en-US')} bytes`);
  }
  await box.press('Enter');
  await expect.poll(() => details.getAttribute('data-selected')).toBe(seen[0]);
  await box.press('Shift+Enter');
  await expect.poll(() => details.getAttribute('data-selected')).toBe(seen.at(-1));
});

test('misunderstood terms are reported, and other items are faded', async ({ open }) => {
  const { file } = known(30);
  const page = await open(`${await serving(file)}#view=timeline`, { expected: /getImageData/ });
  const box = page.getByRole('searchbox');
  const colors = () =>
    page.locator('.timeline-plot canvas').evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext('2d')!.getImageData(canvas.width - 9, 0, 1, canvas.height);
      return [...new Uint32Array(data.buffer)].join();
    });
  const before = await colors();
  await box.fill('>=many');
  await expect.poll(() => page.locator('#search-result').textContent()).toContain('not understood');
  await expect.poll(() => page.getByRole('note').textContent()).toContain('>=many: a size is a number with a unit');
  await box.fill('layer2 colour:red');
  await expect.poll(() => page.locator('#search-result').textContent()).toContain('ignored: colour:red');
  await expect.poll(() => page.getByRole('note').textContent()).toContain('there is no field colour; fields are file, function');
  await box.fill('layer2');
  await expect.poll(colors).not.toBe(before);
});

test('a legend entry searches for its group', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=timeline&color=stream`);
  await legend(page).getByRole('button', { name: 'stream 0x2' }).click();
  await page.locator(`[data-matches="${made.filter((m) => m.stream === 2).length}"]`).waitFor();
  await expect.poll(async () => (await state(page))['search']).toBe('stream:2');
});

test('a legend choice after typing applies, even if the page is busy', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=timeline&color=stream`);
  const entry = legend(page).getByRole('button', { name: 'stream 0x2' });
  await entry.waitFor();
  await page.getByRole('searchbox').focus();
  await entry.evaluate(async (button: HTMLElement) => {
    const box = document.querySelector<HTMLInputElement>('input[type=search]')!;
    box.value = 'layer1';
    box.dispatchEvent(new InputEvent('input', { bubbles: true }));
    for (let frames = 0; frames < 3; frames += 1) await new Promise(requestAnimationFrame);
    // Long enough that the typing delay is over when the page continues.
    for (const begun = performance.now(); performance.now() - begun < 300; );
    button.click();
  });
  await page.locator(`[data-matches="${made.filter((m) => m.stream === 2).length}"]`).waitFor();
  await expect.poll(async () => (await state(page))['search']).toBe('stream:2');
  await expect.poll(() => page.getByRole('searchbox').inputValue()).toBe('stream:2');
});
