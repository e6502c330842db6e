// Pointer actions in the panels below the timeline: maps, tracks, call trees, lists.

import { expect } from 'vitest';

import { example, report } from './command';
import { compiled } from './recordings';
import { answering, numberOf, panel, serving, show, state, test } from './page';
import { meddle } from './transport';

const OOM = example('oom.pickle');
const told = report(OOM).devices[0];

test('a block of the state shows its details, and a click selects it', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state&moment=1000`);
  await page.locator('.state-view[data-moment="1000"]').waitFor();
  const box = (await page.getByRole('application', { name: /^Segments and blocks/ }).boundingBox())!;
  const [x, y] = [box.x + 40, box.y + 34];
  await page.mouse.move(x, y);
  const tooltip = page.locator('.part-tooltip');
  await tooltip.waitFor();
  const address = /address(0x[0-9a-f]+)/i.exec((await tooltip.textContent())!)![1]!;
  const { blocks } = await (await answering(OOM)).ask(0, 0, { question: 'layout', moment: 1000 });
  const at = blocks.address.indexOf(Number(address));
  expect(at).toBeGreaterThanOrEqual(0);
  await page.mouse.click(x, y);
  await expect.poll(async () => (await state(page))['selected']).toBe(String(blocks.allocation[at]));
  await expect.poll(() => panel(page).getByRole('region', { name: 'Selected allocation' }).textContent()).toContain(address);
  await page.mouse.click(x, y);
  await expect.poll(async () => (await state(page))['selected']).toBeUndefined();
});

test("scale and order change the map's drawing, not its contents", async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state`);
  await show(page, 'state');
  const scale = page.locator('.scale');
  const first = await scale.getAttribute('title');
  await page.getByRole('button', { name: 'Finer scale' }).click();
  await expect.poll(() => scale.getAttribute('title')).not.toBe(first);
  await page.getByRole('radio', { name: 'Size' }).check({ force: true });
  await expect.poll(() => numberOf(page, '.state-view', 'data-allocated')).toBe(told.peak_allocated_bytes);
  await panel(page).getByRole('button', { name: 'Fit' }).click();
  await expect.poll(() => scale.getAttribute('title')).toBe(first);
});

test('the list contains every event, and a click chooses the moment after it', async ({ open }) => {
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
  await page.getByRole('slider', { name: 'Moment', exact: true }).fill('777');
  await page.locator('.state-view[data-moment="777"]').waitFor();
  await expect.poll(() => list.getByRole('option', { selected: true }).textContent()).toMatch(/^776/);
});

test('the list keeps its scroll position, and gets its rows however late answers arrive', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=state`);
  const list = page.getByRole('listbox');
  const chosen = list.getByRole('option', { selected: true });
  await expect.poll(() => chosen.textContent()).toContain('alloc');
  await list.evaluate((box) => (box.scrollTop = 0));
  const { width, height } = page.viewportSize()!;
  const low = await list.evaluate((box) => box.clientHeight);
  await page.setViewportSize({ width, height: height + 200 });
  await expect.poll(() => list.evaluate((box) => box.clientHeight)).toBeGreaterThan(low);
  await expect.poll(() => list.evaluate((box) => box.scrollTop)).toBe(0);
  // The rows of the chosen moment and the visible rows are requested in turn, while other answers redraw the view.
  await meddle(page, { kind: 'events', delay: 900 });
  await meddle(page, { kind: 'holes', delay: 300 });
  await page.reload();
  await page.getByRole('slider', { name: 'Moment', exact: true }).fill('1200');
  await expect.poll(() => chosen.count()).toBe(1);
  await list.evaluate((box) => (box.scrollTop = 0));
  await expect.poll(() => list.getByRole('option').first().textContent(), { timeout: 10_000 }).toContain('alloc');
});

test('a reserved range shows its details, and a click chooses its row', async ({ open }) => {
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

test('a click in the call tree zooms in, and its path zooms out', async ({ open }) => {
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
  await expect.poll(() => path.count()).toBe(3);
  await path.first().click();
  await expect.poll(() => path.count()).toBe(1);
});

test('the call tree has the chosen frames, from either end', async ({ open }) => {
  const page = await open(`${await serving(compiled([]))}#view=moment`);
  await show(page, 'moment');
  const choose = (name: string) => page.getByRole('group', { name: 'Calls' }).getByRole('radio', { name }).check({ force: true });
  const tree = page.locator('.flame [aria-live]');
  const path = async (rows: number) => {
    await expect.poll(() => page.locator('.flame-canvas').evaluate((e) => e.clientHeight)).toBe((rows + 1) * 20);
    const application = page.getByRole('application', { name: /^Call tree/ });
    await application.press('Home');
    const found: string[] = [];
    for (let i = 0; i < rows; i += 1) {
      const before = await tree.textContent();
      await application.press('ArrowDown');
      await expect.poll(() => tree.textContent()).not.toBe(before);
      found.push((await tree.textContent())!.split(/[,:]? /)[0]!);
    }
    return found;
  };
  const [module, call] = ['train.py:99', 'generated.py:7'];
  expect(await path(2)).toEqual([module, call]);
  await choose('Python');
  const backward = 'torch/_tensor.py:500';
  expect(await path(3)).toEqual([module, backward, call]);
  await choose('All');
  expect(await path(4)).toEqual([module, backward, call, 'at::native::addmm']);
  await page.getByRole('checkbox', { name: 'Inverted' }).check();
  await page.getByRole('application', { name: /^Call tree, inverted/ }).waitFor();
  // The name changes at once, the tree when its answer arrives.
  await expect.poll(() => path(4)).toEqual(['at::native::addmm', call, backward, module]);
  await expect.poll(async () => (await state(page))['inverted']).toBe('1');
  await expect.poll(async () => (await state(page))['calls']).toBe('all');
});

test('generated code and the backward pass show their origin', async ({ open }) => {
  const forward = ['  File "/home/user/model.py", line 30, in forward\n', '    x = self.norm(x)\n'];
  const page = await open(`${await serving(compiled(forward))}#view=timeline&selected=0`);
  const details = page.locator('aside[data-selected="0"]');
  await details.getByRole('heading', { name: 'Originating forward pass' }).waitFor();
  await expect
    .poll(() => details.getByLabel('Originating forward pass').textContent())
    .toContain('line 30, in forward\n    x = self.norm(x)');
  await expect
    .poll(() => details.locator('.frame-original').first().textContent())
    .toMatch(/node addmm_1 .*line 31, in forward\s+return self.linear\(x\)/);
});
