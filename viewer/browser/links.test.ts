// A link may contain any search; none of them blocks the page or the engine.

import { expect } from 'vitest';
import { goTo, serving, test } from './page';
import { frame, write } from './recordings';

/** A function name for which a backtracking pattern would take forever. */
const LONG = `${'a'.repeat(100)}!`;

const MIB = 1 << 20;

/** Two allocations: one of a function with that name, and one of another function. */
function recording(): string {
  const alloc = (at: number, name: string) => ({
    action: 'alloc',
    addr: 0x7f0000000000 + at * MIB,
    size: MIB,
    stream: 0,
    frames: [frame(name)],
    time_us: 1_000_000 + at,
  });
  return write('links.json', { segments: [], device_traces: [[alloc(0, LONG), alloc(1, 'other')]] });
}

const SEARCHES: [text: string, said: RegExp][] = [
  ['/(a+)+$/', /^0 matches/],
  ['/^(a|a)*$/ OR function:/(.*a){20}b/', /^0 matches/],
  ['category:/(a*)*c/ OR layer:/(a*)*c/ OR region:/(a*)*c/', /^[02] match/],
  [`/${'(a?){30}'.repeat(30)}!/`, /^(1 match|not understood)/],
  [String.raw`/(\w{1,200}){1,200}!/`, /^not understood/],
  ['/(?=a)(a+)+$/', /^not understood/],
  [Array.from({ length: 5000 }, (_, i) => `x${i}`).join(' OR '), /^not understood/],
  [`${'('.repeat(3000)}a${')'.repeat(3000)}`, /^not understood/],
  ['('.repeat(100_000), /^not understood/],
  [`/${'a'.repeat(3000)}/`, /^not understood/],
  [`>=${'9'.repeat(300)}GiB`, /^not understood/],
  [`freed:>${'9'.repeat(300)} step:>${'9'.repeat(300)}`, /^0 matches/],
];

test('a link with any search keeps the page responsive', async ({ open }) => {
  const address = await serving(recording());
  for (const [text, said] of SEARCHES) {
    const page = await open(`${address}#search=${encodeURIComponent(text)}`);
    const result = page.locator('#search-result');
    await expect.poll(() => result.textContent(), { message: text.slice(0, 80) }).toMatch(said);
    await page.getByRole('searchbox').fill('other');
    await expect.poll(() => result.textContent()).toMatch(/^1 match/);
    await page.close();
  }
});

test('errors of the engine appear beside the search', async ({ open }) => {
  const page = await open(`${await serving(recording())}#search=other`);
  for (const [text, why] of [
    ['/(/', 'invalid regular expression'],
    [String.raw`/(a)\1/`, 'back references are not supported'],
    ['>=5parsecs', 'a size is a number of bytes or has a unit'],
  ] as const) {
    await goTo(page, `search=${encodeURIComponent(text)}`);
    await page.getByRole('searchbox').focus();
    await expect.poll(() => page.locator('.search-unclear').allInnerTexts()).toContainEqual(expect.stringContaining(why));
  }
});

test('patterns find their matches', async ({ open }) => {
  const page = await open(await serving(recording()));
  for (const [text, count] of [
    ['/^a+!$/', 0],
    ['function:/^A+!$/', 1],
    ['/train\\.py:\\d+ o/', 1],
    ['/oth|a!/', 2],
  ] as const) {
    await page.getByRole('searchbox').fill(text);
    await page.locator(`[data-matches="${count}"]`).waitFor();
  }
});
