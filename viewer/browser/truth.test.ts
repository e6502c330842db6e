// Recordings with known answers: the page against PyTorch's own counters at the end of each run.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { data, report } from './command';
import { numberOf, ready, serving, show, test } from './page';
import { skipping } from './skipping';

const folder = data && join(data, 'phantom');
const list = folder && join(folder, 'truth.jsonl');
const present = list !== null && existsSync(list);
const truth: any[] = !present
  ? []
  : readFileSync(list, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));

/** These began late or keep only a part, so the counters include unrecorded events. */
const isPartial = ({ file }: any) => /late|max-entries|context_state/.test(file);

const KINDS = ['requested', 'allocated', 'active', 'reserved'];

test("every recording has the peaks and the end of PyTorch's counters", { timeout: 180_000 }, async ({ open, skip }) => {
  if (!present) skipping('recordings', 'every recording has the peaks and the end that PyTorch counted', skip);
  const files = truth.map((t) => join(folder!, t.file));
  const page = await open(await serving(...files));
  const differences: string[] = [];
  for (const [i, one] of truth.entries()) {
    const told = report(files[i]!).devices.find((d: any) => d.device === 0);
    const differs = (what: string, shown: unknown, expected: unknown) => {
      if (shown !== expected) differences.push(`${one.file}: ${what}: ${shown}, not ${expected}`);
    };
    await page.evaluate((hash) => (location.hash = hash), `file=${i}`);
    await expect.poll(() => page.locator('select.file-select').inputValue()).toBe(String(i));
    await ready(page, 'overview');
    for (const kind of KINDS) {
      const expected = isPartial(one) ? told[`peak_${kind}_bytes`] : one[`peak_${kind}`];
      differs(`peak ${kind}`, await numberOf(page, `[data-peak="${kind}"]`, 'data-bytes'), expected);
      if (isPartial(one) && told[`peak_${kind}_bytes`] > one[`peak_${kind}`])
        differences.push(`${one.file}: more than PyTorch's`);
    }
    differs('reserved at the end', await numberOf(page, '[data-end="reserved"]', 'data-bytes'), one.end_reserved);

    await show(page, 'moment');
    const peak = told.peak_event === null ? 0 : told.peak_event + 1;
    await page.locator(`.moment-view[data-moment="${peak}"]`).waitFor();
    differs('total of the moment', await numberOf(page, '.moment-view', 'data-total'), told.peak_allocated_bytes);

    await show(page, 'state');
    await page.evaluate((hash) => (location.hash = hash), `view=state&file=${i}&moment=${told.events}`);
    await page.locator(`.state-view[data-moment="${told.events}"]`).waitFor();
    const last = await page.locator('.state-view').evaluate((view) => ({ ...view.dataset }));
    for (const kind of KINDS) differs(`${kind} at the end`, Number(last[kind]), told[`end_${kind}_bytes`]);
  }
  expect(differences).toEqual([]);
});
