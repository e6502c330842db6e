// The span: how it is chosen, shown and let go.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example, report } from './command';
import { plotBox, serving, state, test } from './page';

const TRAINING = example('training.pickle.zst');
const events = 5252;

const spanOf = async (page: Page) => (await state(page))['span'];
const drag = async (page: Page, from: [number, number], to: [number, number]) => {
  await page.mouse.move(...from);
  await page.mouse.down();
  await page.mouse.move(...to, { steps: 4 });
  await page.mouse.up();
};

test('Shift and dragging choose a span, and so does dragging along the axis', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  const box = await plotBox(page);
  const at = (share: number) => box.x + share * box.width;
  // What event n did is seen from moment n + 1 on.
  const moment = (share: number) => Math.round(share * (events + 1) - 1);
  const near = async (begin: number, end: number) => {
    await expect.poll(() => spanOf(page)).toBeDefined();
    const [from, to] = (await spanOf(page))!.split('.').map(Number);
    // A pixel is some five events.
    expect(Math.abs(from! - moment(begin))).toBeLessThanOrEqual(6);
    expect(Math.abs(to! - moment(end))).toBeLessThanOrEqual(6);
  };
  await page.keyboard.down('Shift');
  await drag(page, [at(0.2), box.y + 50], [at(0.4), box.y + 70]);
  await page.keyboard.up('Shift');
  await near(0.2, 0.4);
  expect((await state(page))['range']).toBeUndefined();
  await drag(page, [at(0.8), box.y + box.height + 10], [at(0.6), box.y + box.height + 12]);
  await expect.poll(async () => Number((await spanOf(page))!.split('.')[0]) > 3000).toBe(true);
  await near(0.6, 0.8);
  // Beyond the ends of the recording nothing happened.
  await drag(page, [at(0.5), box.y + box.height + 10], [at(1) + 15, box.y + box.height + 12]);
  await expect.poll(async () => (await spanOf(page))!.split('.')[1]).toBe(String(events));
  await page.keyboard.press('Escape');
  await expect.poll(() => spanOf(page)).toBeUndefined();
});

test('brackets set its begin and its end at the moment, in every view', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment&moment=1000`);
  await page.keyboard.press('[');
  await expect.poll(() => spanOf(page)).toBe(`1000.${events}`);
  await page.keyboard.press('Shift+ArrowDown');
  await expect.poll(async () => (await state(page))['moment']).toBe('1100');
  await page.keyboard.press(']');
  await expect.poll(() => spanOf(page)).toBe('1000.1100');
  await page.keyboard.press('Shift+ArrowUp');
  await page.keyboard.press('Shift+ArrowUp');
  await expect.poll(async () => (await state(page))['moment']).toBe('900');
  // One that would begin after its end begins with the recording.
  await page.keyboard.press(']');
  await expect.poll(() => spanOf(page)).toBe('0.900');
  await page.keyboard.press('Escape');
  await expect.poll(() => spanOf(page)).toBeUndefined();
});

test('the number of a step and the band of a region choose what happened in them', async ({ open }) => {
  const { steps } = report(TRAINING).devices[0].steps;
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  await page.keyboard.press('s');
  const second = `${steps[1].first_event}.${steps[1].end_event}`;
  await expect.poll(() => spanOf(page)).toBe(second);
  // The address keeps it.
  await page.reload();
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  expect(await spanOf(page)).toBe(second);
});

test('a span that the recording does not have is let go', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline&span=7000.9000`);
  await expect.poll(() => spanOf(page)).toBeUndefined();
  await page.evaluate(() => (location.hash = '#view=timeline&span=100.9000'));
  await expect.poll(() => spanOf(page)).toBe(`100.${events}`);
});
