import { writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { test, serving, show, VIEWS, tableRows } from './page';
import { example, report } from './command';
import * as r from './recordings';
test('it opens', async ({ open }) => {
  const page = await open(await serving(example('leak.pickle')));
  for (const v of VIEWS) { const t = Date.now(); await show(page, v); console.log(v, Date.now() - t); }
  console.log(await tableRows(page, /Settings/));
});
test('a console error fails', async ({ open }) => {
  const page = await open(await serving(example('leak.pickle')));
  await page.evaluate(() => console.error('bad'));
});
test('hostile', async () => {
  for (const f of [r.hostile(), r.empty(), r.segmentsOnly(), r.known(20).file, r.known(20,{times:false}).file, r.known(20,{stacks:false}).file]) {
    const x = report(f); const d = x.devices[0];
    console.log(f, d?.events, d?.peak_allocated_bytes, d?.end_reserved_bytes, JSON.stringify(d?.regions), JSON.stringify(d?.quality));
  }
});
