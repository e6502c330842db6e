// The page's saved pictures and tables: complete and readable.

import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { example } from './command';
import { VIEWS, legend, serving, show, test, type View } from './page';
import { pictureTexts, records, save } from './saving';

const OOM = example('oom.pickle');
const LEAK = example('leak.pickle');

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

async function savesPicture(page: Page, button: Locator): Promise<{ width: number; height: number }> {
  const svg = await save(page, button, 'Picture as SVG');
  expect(svg.name).toMatch(/^[\w.-]+\.svg$/);
  const read = await page.evaluate((text) => {
    const root = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
    return {
      kind: root.tagName,
      width: Number(root.getAttribute('width')),
      height: Number(root.getAttribute('height')),
      shapes: root.querySelectorAll('rect, polyline').length,
      texts: root.querySelectorAll('text').length,
      active: root.querySelectorAll('script, image, foreignObject, a').length,
    };
  }, svg.bytes.toString());
  expect(read).toMatchObject({ kind: 'svg', active: 0 });
  expect(read.shapes).toBeGreaterThan(3);
  expect(read.texts).toBeGreaterThan(0);

  const png = await save(page, button, 'Picture as PNG');
  expect(png.name).toBe(svg.name.replace(/svg$/, 'png'));
  expect(png.bytes.subarray(0, 8)).toEqual(PNG);
  expect(png.bytes.toString('latin1', 12, 16)).toBe('IHDR');
  const [width, height] = [png.bytes.readUInt32BE(16), png.bytes.readUInt32BE(20)];
  expect(Math.abs(width - 2 * read.width)).toBeLessThanOrEqual(2);
  expect(Math.abs(height - 2 * read.height)).toBeLessThanOrEqual(2);
  return read;
}

async function savesTable(page: Page, part: Locator): Promise<void> {
  const button = part.getByRole('button', { name: /^Save/ });
  const rows = Number(await part.getByRole('grid').getAttribute('aria-rowcount')) - 1;
  const columns = await part.getByRole('columnheader').count();
  const csv = await save(page, button, 'Table as CSV');
  const [head, ...body] = records(csv.bytes.toString());
  expect(head).toHaveLength(columns);
  expect(head!.every((name) => /^[a-z_]+$/.test(name))).toBe(true);
  expect(body).toHaveLength(rows);
  expect(body.every((row) => row.length === columns)).toBe(true);
  const json = await save(page, button, 'Table as JSON');
  const objects = JSON.parse(json.bytes.toString());
  expect(objects).toHaveLength(rows);
  expect(Object.keys(objects[0])).toEqual(head);
  // Both have the same values.
  const number = head!.findIndex((name) => name.endsWith('_bytes'));
  if (number >= 0) expect(body.map((row) => Number(row[number]))).toEqual(objects.map((o: any) => o[head![number]!]));
}

test('the timeline is saved as drawn', async ({ open }) => {
  const page = await open(`${await serving(OOM, LEAK)}#view=timeline&range=200~900&moment=500&selected=30`);
  // The legend grows once categories are known.
  await legend(page).getByRole('button').first().waitFor();
  const box = (await page.locator('.timeline-over').boundingBox())!;
  const { width, height } = await savesPicture(page, page.getByRole('button', { name: 'Save timeline' }));
  expect(Math.abs(width - box.width)).toBeLessThan(2);
  // Above it are a title and the axes' meaning, below it the legend.
  expect(height - box.height).toBeGreaterThan(60);
});

test('saved pictures name their recording, their content, and the meaning of their colors', async ({ open }) => {
  const page = await open(`${await serving(example('training.pickle.zst'))}#view=timeline&color=line`);
  await legend(page).locator('[data-key]').first().waitFor();
  const entries = await legend(page)
    .locator('[data-key]:not([data-key="others"])')
    .evaluateAll((all) =>
      all.map((one) => [one.querySelector('.legend-name')!.textContent!, one.lastElementChild!.textContent!]),
    );
  for (const view of ['timeline', 'state'] as const) {
    await show(page, view);
    const all = await pictureTexts(
      page,
      page.locator(view === 'state' ? '#panel' : 'body').getByRole('button', { name: new RegExp(`^Save ${view}`) }),
    );
    expect(all[0]).toMatch(/^training\.pickle\.zst, GPU 0: /);
    expect(all.join('\n')).toMatch(/Colors by line\. .*allocated after event [\d,]+, the peak/);
    expect(entries.length).toBeGreaterThan(1);
    for (const [name, part] of entries) {
      const at = all.findIndex((text) => text === name || text.endsWith(name!.slice(-12)));
      expect(
        all.slice(at).some((text) => text.endsWith(part!.replace(/.*?([\d.]+%)$/, '$1'))),
        name,
      ).toBe(true);
    }
  }
  await show(page, 'moment');
  const flame = await pictureTexts(page, page.locator('#panel').getByRole('button', { name: /^Save flame/ }));
  expect(flame[0]).toMatch(/^training\.pickle\.zst, GPU 0: call tree of allocated bytes after event [\d,]+$/);
  expect(flame[1]).toMatch(/^The whole width is /);
});

// allocations.test.ts compares the saved allocation table with the command's export; overlaid.test.ts saves the steps, sql.test.ts a result.
const TESTED_ELSEWHERE: View[] = ['overview', 'timeline', 'allocations', 'steps', 'sql'];
test.for(VIEWS.filter((view) => !TESTED_ELSEWHERE.includes(view)))('everything in %s is saved', async (view: View, { open }) => {
  const page = await open(await serving(OOM, LEAK));
  await show(page, view);
  const tables = page.locator('#panel .table-part');
  const parts = await tables.count();
  for (let i = 0; i < parts; i += 1) await savesTable(page, tables.nth(i));
  const pictures = page.locator('#panel').getByRole('button', { name: /^Save (flame|state|segments$)/ });
  const count = view === 'segments' ? 1 : await pictures.count();
  expect(parts + count).toBeGreaterThan(0);
  for (let i = 0; i < count; i += 1) await savesPicture(page, pictures.nth(i));
});

test('a sorted or long table is saved completely, in its order', async ({ open }) => {
  const page = await open(`${await serving(OOM, LEAK)}#view=segments`);
  const part = page.getByRole('region', { name: 'Reserved ranges', exact: true });
  await part.getByRole('button', { name: 'Reserved', exact: true }).click();
  const csv = await save(page, part.getByRole('button', { name: /^Save/ }), 'Table as CSV');
  const [head, ...body] = records(csv.bytes.toString());
  const sizes = body.map((row) => Number(row[head!.indexOf('reserved_bytes')]));
  expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
  expect(sizes).toHaveLength(61);
});
