// Every view of recordings with missing or strange parts, opened by its address.

import { odd } from './odd';
import { VIEWS, drawn, ready, serving, test } from './page';
import { looksWhole } from './whole';

const recordings = odd();
const names = Object.keys(recordings);
const files = Object.values(recordings);
const drawable = names.filter((name) => name !== 'without a device');

test.for(drawable)('every view, opened by its address: %s', { timeout: 120_000 }, async (name, { open }) => {
  const address = await serving(...files);
  const of = (view: string) => `${address}#file=${names.indexOf(name)}&view=${view}`;
  const page = await open(of(VIEWS[0]!));
  for (const view of VIEWS) {
    await page.goto('about:blank');
    await page.goto(of(view));
    await ready(page, view);
    await drawn(page);
    await looksWhole(page, view);
  }
});
