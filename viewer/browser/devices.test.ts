// Recordings of several devices: the default device, and findings about the others.

import { expect } from 'vitest';
import { secondFailed } from './recordings';
import { ready, serving, showsPeak, state, test } from './page';

const MIB = 1 << 20;
const strip = { name: 'Devices' } as const;

test('the device that ran out of memory is the default, and the other device mentions it', async ({ open }) => {
  const address = await serving(secondFailed());
  const page = await open(address);
  await ready(page, 'overview');
  await showsPeak(page, 20 * MIB);
  const devices = page.getByRole('group', strip).getByRole('button');
  await expect.poll(() => devices.count()).toBe(2);
  await expect.poll(() => devices.allInnerTexts()).toEqual(['GPU 0 40.00 MiB peak', 'GPU 1 20.00 MiB peak out of memory']);
  // All are drawn to the same scale.
  await expect.poll(() => devices.locator('path').count()).toBe(2);
  await expect.poll(() => devices.nth(1).locator('path').getAttribute('d')).toContain('V50H');
  await expect.poll(() => devices.nth(0).locator('path').getAttribute('d')).toContain('V0H');

  await devices.nth(0).click();
  await showsPeak(page, 40 * MIB);
  await expect.poll(async () => (await state(page))['device']).toBe('0');
  await expect.poll(() => devices.nth(0).getAttribute('aria-pressed')).toBe('true');
  await page.reload();
  await ready(page, 'overview');
  await showsPeak(page, 40 * MIB);
  await page.getByRole('heading', { name: 'GPU 1 ran out of memory' }).waitFor();
  await page.getByRole('button', { name: 'Show GPU 1' }).click();
  await showsPeak(page, 20 * MIB);
  await page.getByRole('heading', { name: /^Out of memory: 70.00 MiB/ }).waitFor();
  await expect.poll(() => page.getByRole('heading', { name: 'ran out of memory' }).count()).toBe(0);
  await expect.poll(async () => (await state(page))['device']).toBeUndefined();
  await page.goBack();
  await showsPeak(page, 40 * MIB);
});

test('the device strip works with the keyboard, in every view', async ({ open }) => {
  const page = await open(`${await serving(secondFailed())}#view=state`);
  await page.getByRole('group', strip).getByRole('button', { name: 'GPU 0' }).focus();
  await page.keyboard.press('Enter');
  await expect.poll(async () => await state(page)).toMatchObject({ view: 'state', device: '0' });
});
