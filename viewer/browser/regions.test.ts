// Annotated regions: their bands above the plot, and their figures in the overview.

import { expect } from 'vitest';
import { overlapping } from './recordings';
import { plotBox, serving, state, test } from './page';

test('overlapping regions have separate rows, and a band begins where its first event is visible', async ({ open }) => {
  const page = await open(`${await serving(overlapping())}#view=timeline`);
  const box = await plotBox(page);
  const over = (await page.locator('.timeline-over').boundingBox())!;
  // Five events: moments 0 to 5, each a sixth of the width.
  const at = (moment: number) => box.x + ((moment + 0.5) / 6) * box.width;
  const rows = [22, 22 + 15].map((y) => over.y + y);
  const named = async (moment: number, row: number) => {
    await page.mouse.move(at(moment), rows[row]!);
    const tooltip = page.locator('.part-tooltip');
    return (await tooltip.count()) > 0 ? ((await tooltip.innerText()).split('\n')[0] ?? '') : null;
  };
  // "load" has events 1 and 2, "compute" 2 and 3, "store" 3 and 4: they are visible one moment later.
  const expected = [
    [null, null, 'load', 'load', 'store', 'store'],
    [null, null, null, 'compute', 'compute', null],
  ];
  for (const [row, names] of expected.entries())
    for (const [moment, name] of names.entries()) await expect.poll(() => named(moment, row)).toBe(name);
  await page.mouse.click(at(3), rows[1]!);
  await expect.poll(async () => (await state(page))['span']).toBe('2.4');
});
