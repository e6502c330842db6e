// A page with its recordings inside, opened from the disk with the network cut.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect } from 'vitest';
import { data, example, replay, report, writePage } from './command';
import { VIEWS, numberOf, plotBox, redrawn, show, test } from './page';
import { skipping } from './skipping';

const CUT = { offline: true };
const address = (...files: string[]) => pathToFileURL(writePage(...files)).href;

const KINDS = ['requested', 'allocated', 'active', 'reserved'];

describe.each(['leak.pickle', 'oom.pickle', 'training.pickle.zst'])('%s', (name) => {
  test('every view works and has the same numbers', async ({ open }) => {
    const told = report(example(name)).devices[0];
    const page = await open(address(example(name)), CUT);
    await show(page, 'overview');
    for (const kind of KINDS) {
      expect(await numberOf(page, `[data-peak="${kind}"]`, 'data-bytes')).toBe(told[`peak_${kind}_bytes`]);
      expect(await numberOf(page, `[data-end="${kind}"]`, 'data-bytes')).toBe(told[`end_${kind}_bytes`]);
    }
    await show(page, 'moment');
    expect(await numberOf(page, '.moment-view', 'data-total')).toBe(told.peak_allocated_bytes);
    await show(page, 'state');
    const { at } = report(example(name), '--at', String(told.peak_event)).devices[0];
    for (const kind of KINDS) expect(await numberOf(page, '.state-view', `data-${kind}`)).toBe(at[`${kind}_bytes`]);
    await show(page, 'segments');
    expect(await numberOf(page, '.segments-view', 'data-segments')).toBe(
      replay(example(name)).devices[0].recorded.segments_allocated,
    );
    await show(page, 'whatif');
    expect(await numberOf(page, '.whatif-view', 'data-settings')).toBe(replay(example(name)).devices[0].what_if.length);
    await show(page, 'timeline');
    const box = await plotBox(page);
    await page.mouse.move(box.x + 400, box.y + box.height - 20);
    await page.locator('.part-tooltip').waitFor();
    await redrawn(page, () => page.mouse.wheel(0, -500));
    await page.mouse.click(box.x + 400, box.y + box.height - 20);
    await page.locator('aside[data-selected]').waitFor();
    await page.getByRole('searchbox').fill('stream:0');
    await page.locator('[data-matches]').waitFor();
  });
});

test('two files inside of a page are compared', async ({ open }) => {
  const page = await open(address(example('leak.pickle'), example('oom.pickle')), CUT);
  await show(page, 'compare');
  expect(await numberOf(page, '.growth', 'data-a')).toBe(report(example('leak.pickle')).devices[0].peak_allocated_bytes);
  expect(await numberOf(page, '.growth', 'data-b')).toBe(report(example('oom.pickle')).devices[0].peak_allocated_bytes);
});

const phantom = data && join(data, 'phantom');
const known = ['gpt2-torch2.11-default.pickle', 'resnet50-torch2.11-expandable.pickle', 'streams-torch2.15-default.pickle'];

test('totals are what PyTorch counted', async ({ open, skip }) => {
  if (!phantom || !existsSync(phantom)) skipping('recordings', 'totals are what PyTorch counted', skip);
  const truth = readFileSync(join(phantom!, 'truth.jsonl'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const page = await open(address(...known.map((name) => join(phantom!, name))), CUT);
  for (const [i, name] of known.entries()) {
    const expected = truth.find((t) => t.file === name);
    await page.getByRole('combobox', { name: 'File' }).selectOption(String(i));
    for (const kind of KINDS) {
      await expect.poll(() => numberOf(page, `[data-peak="${kind}"]`, 'data-bytes')).toBe(expected[`peak_${kind}`]);
    }
    expect(await numberOf(page, '[data-end="reserved"]', 'data-bytes')).toBe(expected.end_reserved);
  }
});

test('it opens other files, too, and closes them', async ({ open }) => {
  const page = await open(address(example('leak.pickle')), CUT);
  await page.locator('input[type=file]').setInputFiles(example('oom.pickle'));
  const files = page.getByRole('combobox', { name: 'File' });
  await expect.poll(() => files.locator('option').allTextContents()).toEqual(['leak.pickle', 'oom.pickle']);
  await show(page, 'overview');
  const peak = () => numberOf(page, '[data-peak="allocated"]', 'data-bytes');
  await expect.poll(peak).toBe(report(example('oom.pickle')).devices[0].peak_allocated_bytes);
  for (const view of VIEWS) await show(page, view);
  await page.getByRole('button', { name: 'Close oom.pickle' }).click();
  await show(page, 'overview');
  await expect.poll(peak).toBe(report(example('leak.pickle')).devices[0].peak_allocated_bytes);
});
