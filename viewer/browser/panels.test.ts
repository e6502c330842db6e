// The panels beneath the timeline under the hand: maps, tracks, call trees, lists.

import { expect } from 'vitest';
import { engineOf } from './asking';
import { example, report } from './command';
import { numberOf, panel, serving, show, state, test } from './page';

const OOM = example('oom.pickle');
const told = report(OOM).devices[0];

test('a block of the state tells what it is, and a click selects it', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state&moment=1000`);
  await page.locator('.state-view[data-moment="1000"]').waitFor();
  const box = (await page.getByRole('application', { name: /^Segments and blocks/ }).boundingBox())!;
  const [x, y] = [box.x + 40, box.y + 34];
  await page.mouse.move(x, y);
  const tooltip = page.locator('.part-tooltip');
  await tooltip.waitFor();
  const address = /address(0x[0-9a-f]+)/i.exec((await tooltip.textContent())!)![1]!;
  const { blocks } = await engineOf(OOM).layout(0, 0, 1000);
  const at = blocks.address.indexOf(Number(address));
  expect(at).toBeGreaterThanOrEqual(0);
  await page.mouse.click(x, y);
  await expect.poll(async () => (await state(page))['selected']).toBe(String(blocks.allocation[at]));
  await expect.poll(() => panel(page).getByRole('region', { name: 'Selected allocation' }).textContent()).toContain(address);
  await page.mouse.click(x, y);
  await expect.poll(async () => (await state(page))['selected']).toBeUndefined();
});

test('the scale and the order of the map change what is drawn, not what it holds', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state`);
  await show(page, 'state');
  const scale = page.locator('.scale');
  const first = await scale.getAttribute('title');
  await page.getByRole('button', { name: 'Finer scale' }).click();
  await expect.poll(() => scale.getAttribute('title')).not.toBe(first);
  await page.getByRole('radio', { name: 'Size' }).check({ force: true });
  expect(await numberOf(page, '.state-view', 'data-allocated')).toBe(told.peak_allocated_bytes);
  await panel(page).getByRole('button', { name: 'Fit' }).click();
  await expect.poll(() => scale.getAttribute('title')).toBe(first);
});

test('the list holds every event, and a click chooses the moment after it', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state`);
  await show(page, 'state');
  const list = page.getByRole('listbox');
  await list.evaluate((box) => (box.scrollTop = box.scrollHeight));
  const last = list.getByRole('option').filter({ hasText: /^2,060/ });
  await last.click();
  await page.locator('.state-view[data-moment="2061"]').waitFor();
  await list.evaluate((box) => (box.scrollTop = 0));
  await list
    .getByRole('option')
    .filter({ hasText: /^0[^,\d]/ })
    .click();
  await page.locator('.state-view[data-moment="1"]').waitFor();
  await page.getByRole('slider', { name: 'Moment' }).fill('777');
  await page.locator('.state-view[data-moment="777"]').waitFor();
  await expect.poll(() => list.getByRole('option', { selected: true }).textContent()).toMatch(/^776/);
});

test('a reserved range tells what it is, and a click chooses its row', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=segments`);
  await show(page, 'segments');
  const box = (await page.getByRole('application', { name: /^Reserved ranges/ }).boundingBox())!;
  const [x, y] = [box.x + box.width - 60, box.y + 28];
  await page.mouse.move(x, y);
  const address = /0x[0-9a-f]+/.exec((await page.locator('.part-tooltip').textContent())!)![0];
  await page.mouse.click(x, y);
  const row = page.getByRole('grid', { name: 'Reserved ranges' }).locator('tr[aria-selected="true"]');
  await expect.poll(() => row.locator('td').first().getAttribute('title')).toBe(address);
  await panel(page)
    .getByRole('region', { name: /^Stack that reserved/ })
    .waitFor();
});

test('a click into the call tree zooms, its path leads back', async ({ open }) => {
  const page = await open(`${await serving(example('training.pickle.zst'))}#view=moment`);
  await show(page, 'moment');
  const tree = page.getByRole('application', { name: /^Call tree/ });
  const box = (await tree.boundingBox())!;
  await page.mouse.move(box.x + 30, box.y + 50);
  const tooltip = page.locator('.part-tooltip');
  await expect.poll(() => tooltip.textContent()).toMatch(/allocated.*share.*blocks/i);
  const name = await tooltip.locator('.tooltip-title').textContent();
  await page.mouse.click(box.x + 30, box.y + 50);
  const path = page.getByRole('navigation', { name: /^Path/ }).getByRole('button');
  await expect.poll(() => path.last().textContent()).toBe(name);
  expect(await path.count()).toBe(3);
  await path.first().click();
  await expect.poll(() => path.count()).toBe(1);
});
