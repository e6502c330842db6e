// Pointer actions on the timeline: painting, hovering, clicking, zooming, scrolling.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { bytes } from '../src/text/units';
import { frames } from './asking';
import { example, report } from './command';
import { answering, exact, pair, plotBox, redrawn, serving, state, test } from './page';

const OOM = example('oom.pickle');
const events = 2061;

interface Column {
  /** Painted rows, from the bottom up without a gap. */
  stack: number;
  /** Rows from the bottom to the highest painted one: the reserved line. */
  line: number;
}

/** Returns the painted rows of pixel columns. */
const painted = (page: Page, columns: number[]): Promise<Column[]> =>
  page.locator('.timeline-plot canvas').evaluate((canvas: HTMLCanvasElement, columns) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext('2d')!.getImageData(0, 0, width, height);
    const shows = (x: number, row: number) => data[4 * ((height - 1 - row) * width + x) + 3] !== 0;
    return columns.map((x) => {
      let [stack, line] = [0, height];
      while (stack < height && shows(x, stack)) stack += 1;
      while (line > 0 && !shows(x, line - 1)) line -= 1;
      return { stack, line };
    });
  }, columns);

const range = async (page: Page) => pair((await state(page))['range']);
const hasRange = (page: Page) => expect.poll(async () => (await state(page))['range']).toBeDefined();

test('the painted stack and the reserved line have the height of their bytes', async ({ open }) => {
  const high = 9e9;
  const page = await open(`${await serving(OOM)}#view=timeline&range=1000~1100&bytes=0~${high}`);
  const { width, height } = await plotBox(page);
  // A pixel at the edge of two moments shows the higher one: take pixels in the middle of a moment.
  const columns = [0, 13, 31, 50, 66, 82, 97].map((moment) => Math.floor(((moment + 0.5) / 100) * width));
  const shown = await painted(page, columns);
  for (const [i, x] of columns.entries()) {
    const moment = 1000 + Math.floor(((x + 0.5) / width) * 100);
    const { at } = report(OOM, '--at', String(moment - 1)).devices[0];
    const rows = (bytes: number) => (bytes / high) * height;
    expect(Math.abs(shown[i]!.stack - rows(at.allocated_bytes)), `stack at moment ${moment}`).toBeLessThanOrEqual(1);
    // The line is two pixels thick and sits on its value.
    expect(Math.abs(shown[i]!.line - 2 - rows(at.reserved_bytes)), `line at moment ${moment}`).toBeLessThanOrEqual(1);
  }
});

test('no peak is lost if a pixel has many moments', async ({ open }) => {
  const file = example('training.pickle.zst');
  const told = report(file).devices[0];
  const high = 4e9;
  const page = await open(`${await serving(file)}#view=timeline&bytes=0~${high}`);
  const { width, height } = await plotBox(page);
  const all = await painted(
    page,
    Array.from({ length: width }, (_, x) => x),
  );
  const x = Math.floor(((told.peak_event + 1) / (told.events + 1)) * width);
  const rows = (told.peak_allocated_bytes / high) * height;
  expect(Math.abs(all[x]!.stack - rows)).toBeLessThanOrEqual(1);
  expect(Math.max(...all.map((column) => column.stack))).toBe(all[x]!.stack);
});

test('hovering shows bytes, address and stack', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline&range=1000~1100`);
  const box = await plotBox(page);
  const source = await answering(OOM);
  const names = await source.names(0);
  for (const [right, up] of [
    [0.2, 0.1],
    [0.5, 0.3],
    [0.8, 0.5],
  ] as const) {
    await page.mouse.move(box.x + right * box.width, box.y + (1 - up) * box.height);
    const tooltip = page.locator('.part-tooltip');
    await tooltip.waitFor();
    const text = (await tooltip.textContent())!;
    const address = Number(/0x[0-9a-f]+/.exec(text)![0]);
    const layout = await source.ask(0, 0, { question: 'layout', moment: 1000 + Math.floor(right * 100) });
    const at = layout.blocks.address.indexOf(address);
    expect(at, text).toBeGreaterThanOrEqual(0);
    expect(text).toContain(bytes(layout.blocks.bytes[at]!));
    const shown = await tooltip.locator('.tooltip-frames li').allTextContents();
    expect(shown.length).toBeGreaterThan(0);
    expect(frames(names, layout.blocks.stack[at]!).some((f) => f.endsWith(shown[0]!.replace(/^.*\//, '')))).toBe(true);
  }
  // Above the stack, the tooltip shows the four kinds of bytes.
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 2);
  await expect.poll(() => page.locator('.part-tooltip').textContent()).toMatch(/requested.*allocated.*active.*reserved/);
  await page.mouse.move(box.x + 0.5 * box.width, box.y + box.height + 120);
  await expect.poll(() => page.locator('.part-tooltip').count()).toBe(0);
});

test('a click selects the allocation and chooses the moment', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline&range=1000~1100`);
  const box = await plotBox(page);
  await page.mouse.click(box.x + 0.505 * box.width, box.y + 0.9 * box.height);
  const details = page.locator('aside[data-selected]');
  await details.waitFor();
  const id = Number(await details.getAttribute('data-selected'));
  const it = await (await answering(OOM)).ask(0, 0, { question: 'allocation', id });
  expect(it.from).toBeLessThanOrEqual(1050);
  expect(it.to ?? Infinity).toBeGreaterThan(1050);
  const titles = await details.locator('dd[title]').evaluateAll((all) => all.map((one) => (one as HTMLElement).title));
  expect(titles.slice(0, 3).map(exact)).toEqual([it.bytes, it.requested, it.bytes - it.requested]);
  await expect.poll(() => details.textContent()).toContain(`0x${it.address.toString(16)}`);
  await expect.poll(() => state(page)).toMatchObject({ selected: String(id), moment: '1050' });
  await details.getByRole('button', { name: 'Clear' }).click();
  await expect.poll(async () => (await state(page))['selected']).toBeUndefined();
});

test('the wheel zooms at the pointer', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline`);
  const box = await plotBox(page);
  const part = 0.3;
  await page.mouse.move(box.x + part * box.width, box.y + 100);
  await redrawn(page, () => page.mouse.wheel(0, -400));
  await hasRange(page);
  const [from, to] = await range(page);
  expect(to - from).toBeLessThan(0.6 * (events + 1));
  expect(from + part * (to - from)).toBeCloseTo(part * (events + 1), -0.5);
  await redrawn(page, () => page.mouse.wheel(0, 5000));
  await expect.poll(async () => (await state(page))['range']).toBeUndefined();
});

test('the wheel with Shift zooms bytes, a double click on their axis fits them, and one beside blocks shows everything', async ({
  open,
}) => {
  const page = await open(`${await serving(OOM)}#view=timeline&range=500~900`);
  const box = await plotBox(page);
  await page.mouse.move(box.x + 300, box.y + box.height / 2);
  await page.keyboard.down('Shift');
  await redrawn(page, () => page.mouse.wheel(0, -400));
  await page.keyboard.up('Shift');
  await expect.poll(async () => (await state(page))['bytes']).toBeDefined();
  const [low, high] = pair((await state(page))['bytes']);
  expect(low).toBeGreaterThan(0);
  expect(high - low).toBeLessThan(6e9);
  await redrawn(page, () => page.mouse.dblclick(box.x - 30, box.y + 100));
  await expect.poll(async () => (await state(page))['bytes']).toBeUndefined();
  // Above the stack.
  await page.mouse.dblclick(box.x + 300, box.y + 2);
  await expect.poll(() => state(page)).not.toMatchObject({ range: expect.anything() });
});

test('dragging scrolls, with Alt it chooses a part', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline&range=500~900`);
  const box = await plotBox(page);
  const drag = async (from: number, to: number) => {
    await page.mouse.move(box.x + from * box.width, box.y + 100);
    await page.mouse.down();
    await page.mouse.move(box.x + ((from + to) / 2) * box.width, box.y + 110, { steps: 4 });
    await page.mouse.move(box.x + to * box.width, box.y + 110, { steps: 4 });
    await page.mouse.up();
  };
  await drag(0.5, 0.25);
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(600, -0.5);
  expect((await range(page))[1]).toBeCloseTo(1000, -0.5);
  // A drag is not a click.
  expect((await state(page))['selected']).toBeUndefined();
  await page.keyboard.down('Alt');
  await drag(0.75, 0.25);
  await page.keyboard.up('Alt');
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(700, -0.5);
  expect((await range(page))[1]).toBeCloseTo(900, -0.5);
});

test('the minimap shows the range, moves it and chooses another', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline&range=500~700`);
  const box = (await page.locator('.minimap').boundingBox())!;
  const xOf = (at: number) => box.x + (at / (events + 1)) * box.width;
  const brush = (await page.locator('.minimap-brush').boundingBox())!;
  expect(Math.abs(brush.x - xOf(500))).toBeLessThan(2);
  expect(Math.abs(brush.width - (200 / (events + 1)) * box.width)).toBeLessThan(2);
  const drag = async (from: number, to: number) => {
    await page.mouse.move(xOf(from), box.y + 10);
    await page.mouse.down();
    await page.mouse.move(xOf(to), box.y + 10, { steps: 5 });
    await page.mouse.up();
  };
  await drag(600, 1100);
  await expect.poll(async () => Math.round((await range(page))[0] / 20)).toBe(50);
  expect((await range(page))[1] - (await range(page))[0]).toBeCloseTo(200, 0);
  await drag(1500, 1900);
  await expect.poll(async () => Math.round((await range(page))[0] / 20)).toBe(75);
  expect(Math.round((await range(page))[1] / 20)).toBe(95);
  // Only one end of the brush.
  await drag(1900, 1700);
  await expect.poll(async () => Math.round((await range(page))[1] / 20)).toBe(85);
  expect(Math.round((await range(page))[0] / 20)).toBe(75);
  // Beside the brush.
  await page.mouse.click(xOf(400), box.y + 10);
  await expect.poll(async () => Math.round((await range(page))[0] / 20)).toBe(15);
});

test('the axis of time shows the same peak', async ({ open }) => {
  const told = report(OOM).devices[0];
  const page = await open(`${await serving(OOM)}#view=timeline`);
  await page.getByRole('combobox', { name: 'Along' }).selectOption('time');
  await page
    .getByRole('img', { name: new RegExp(` s to .* s: at most ${bytes(told.peak_allocated_bytes)} allocated`) })
    .waitFor();
  await page.getByRole('button', { name: 'Save timeline' }).waitFor();
  const box = await plotBox(page);
  await page.mouse.move(box.x + 300, box.y + 100);
  await redrawn(page, () => page.mouse.wheel(0, -300));
  await hasRange(page);
  await page.getByRole('button', { name: 'Fit', exact: true }).click();
  await expect.poll(async () => (await state(page))['range']).toBeUndefined();
});
