// Answers arrive in any order; the result does not depend on the last one.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { example } from './command';
import { drawn, ready, serving, test, type View } from './page';
import { answered, meddle } from './transport';

/** Views that draw on their own canvases, in colors derived from the file's names. */
const DRAWING: View[] = ['segments', 'state', 'moment', 'compare'];

/** Returns the panel's canvases as pictures, once they no longer change. */
async function pixels(page: Page): Promise<string> {
  const pictures = () =>
    page.locator('#panel canvas').evaluateAll((all) => all.map((canvas) => (canvas as HTMLCanvasElement).toDataURL()).join(' '));
  let last = '';
  await expect
    .poll(
      async () => {
        const before = last;
        last = await pictures();
        return last !== '' && last === before;
      },
      { interval: 150 },
    )
    .toBe(true);
  return last;
}

test.for(DRAWING)('opened by its address, whichever answer is late: %s', { timeout: 90_000 }, async (view, { open }) => {
  const address = `${await serving(example('oom.pickle'), example('leak.pickle'))}#view=${view}`;
  const seen = new Map<string, string>();
  const delayed = ['nothing'];
  for (const late of delayed) {
    const page = await open('about:blank', { draws: false, allowed: address });
    await meddle(page, { kind: late, delay: 400 });
    await page.goto(address);
    await drawn(page);
    await ready(page, view);
    await answered(page, 'names');
    seen.set(late, await pixels(page));
    // Then each question of the page is delayed in turn.
    if (late === 'nothing') delayed.push(...(await page.evaluate(() => [...globalThis.questions!.asked])));
    await page.close();
  }
  const [usual] = seen.values();
  expect([...seen].filter(([, picture]) => picture !== usual).map(([late]) => late)).toEqual([]);
});
