// Notes on parts of a recording: written, shown, edited, deleted; stored in the address and in a saved page.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example, scratch } from './command';
import { CLOSING, goTo, plotBox, redrawn, serving, servingAlone, show, state, test } from './page';
import { secondFailed } from './recordings';
import { pictureTexts, saved } from './saving';
import { TRANSPORT } from './transport';

const TRAINING = example('training.pickle.zst');

const notes = (page: Page) => page.getByRole('region', { name: 'Notes' });
const listed = (page: Page) => notes(page).locator('li .note-text').allInnerTexts();
const inAddress = async (page: Page) => (await state(page))['notes'];
const hashOf = (page: Page) => new URL(page.url()).hash.slice(1);
const field = (page: Page) => notes(page).getByRole('textbox');

async function write(page: Page, text: string): Promise<void> {
  await page.keyboard.press('c');
  await field(page).waitFor();
  await page.keyboard.insertText(text);
  await page.keyboard.press('Enter');
}

/** Returns the address of the saved page. */
async function savedPage(page: Page): Promise<string> {
  const button = notes(page).getByRole('button', { name: 'Save page with notes' });
  const { name, bytes } = await saved(page, () => button.click());
  expect(name).toMatch(/-notes\.html$/);
  const path = join(scratch(), name);
  writeFileSync(path, bytes);
  return pathToFileURL(path).href;
}

/** Returns the texts that the timeline draws, from its saved picture. */
const drawnTexts = (page: Page) => pictureTexts(page, page.getByRole('button', { name: 'Save timeline' }));

test('a note is written, edited and deleted by keys, and Back undoes each', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment&span=1000.2000`);
  await write(page, 'twice as high as before');
  await expect.poll(() => listed(page)).toEqual(['twice as high as before']);
  await expect.poll(() => inAddress(page)).toBe('0.0.1000.2000 twice as high as before');
  await expect.poll(async () => (await state(page))['view']).toBe('timeline');
  await notes(page).getByRole('button', { name: 'events 1,000 to 1,999' }).waitFor();
  // The focus returns to the button that opened the field.
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Write a note on this interval');

  await notes(page).getByRole('button', { name: 'Edit: twice' }).press('Enter');
  await expect.poll(() => field(page).inputValue()).toBe('twice as high as before');
  await page.keyboard.press('Escape');
  await field(page).waitFor({ state: 'detached' });
  expect(await listed(page)).toEqual(['twice as high as before']);
  // The interval stays: the key belonged to the field.
  await expect.poll(async () => (await state(page))['span']).toBe('1000.2000');

  await notes(page).getByRole('button', { name: 'Edit: twice' }).press('Enter');
  await field(page).fill('as high as before');
  await page.keyboard.press('Enter');
  await expect.poll(() => inAddress(page)).toBe('0.0.1000.2000 as high as before');
  await notes(page).getByRole('button', { name: 'Delete: as high' }).press('Enter');
  await expect.poll(() => inAddress(page)).toBeUndefined();
  expect(await listed(page)).toEqual([]);

  await page.goBack();
  await expect.poll(() => listed(page)).toEqual(['as high as before']);
  await page.goBack();
  await expect.poll(() => listed(page)).toEqual(['twice as high as before']);
  await page.goBack();
  await expect.poll(() => inAddress(page)).toBeUndefined();
  await page.goForward();
  await page.reload();
  await expect.poll(() => listed(page)).toEqual(['twice as high as before']);
});

test('a note on a moment or an interval leads there, on both axes', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline&moment=900`);
  await write(page, 'here');
  await notes(page).getByRole('button', { name: 'after event 899' }).waitFor();
  await expect.poll(() => inAddress(page)).toBe('0.0.900.900 here');
  await page.keyboard.press('[');
  await write(page, 'from here on');
  await expect.poll(() => listed(page)).toEqual(['from here on', 'here']);
  await page.keyboard.press('Escape');
  for (const axis of ['events', 'time']) {
    await goTo(page, `view=timeline&axis=${axis}&notes=${encodeURIComponent('0.0.2000.3000 middle\n0.0.700.700 here')}`);
    await notes(page).getByRole('button', { name: 'events 2,000 to 2,999' }).click();
    await expect.poll(async () => (await state(page))['span']).toBe('2000.3000');
    await expect.poll(async () => (await state(page))['range']).toBeDefined();
    await notes(page).getByRole('button', { name: 'after event 699' }).click();
    await expect.poll(() => state(page)).toMatchObject({ moment: '700' });
    expect((await state(page))['span']).toBeUndefined();
  }
});

const LONG = `${'all that the forward of the second step keeps for its backward, '.repeat(4)}seen on Monday`;

test('a note is drawn above its range and cut at its beginning, with the whole text in the tooltip', async ({ open }) => {
  const hash = new URLSearchParams({
    view: 'timeline',
    notes: `0.0.1000.1800 ${LONG}\n0.0.2000.2000 at a moment\n0.0.1500.2600 beneath`,
  });
  const page = await open(`${await serving(TRAINING)}#${hash}`);
  await expect
    .poll(async () => (await drawnTexts(page)).filter((one) => /seen on Monday|at a moment|beneath/.test(one)))
    .toEqual([expect.stringMatching(/^….* seen on Monday$/), 'beneath', 'at a moment']);
  const box = await plotBox(page);
  const over = (await page.locator('.timeline-over').boundingBox())!;
  const at = (event: number) => box.x + (event / 5253) * box.width;
  await page.mouse.move(at(1200), over.y + 19 + 8);
  await expect.poll(() => page.locator('.part-tooltip').innerText()).toContain(LONG);
  await page.mouse.click(at(1600), over.y + 19 + 16 + 8);
  await expect.poll(async () => (await state(page))['span']).toBe('1500.2600');
  await expect.poll(async () => (await state(page))['range']).toBe('1501~2601');
});

test('another device does not have the notes', async ({ open }) => {
  const page = await open(`${await serving(secondFailed())}#view=timeline`);
  await write(page, 'of the second');
  await expect.poll(() => listed(page)).toEqual(['of the second']);
  const devices = page.getByRole('group', { name: 'Devices' }).getByRole('button');
  await devices.nth(0).click();
  await expect.poll(async () => (await state(page))['device']).toBe('0');
  await expect.poll(() => listed(page)).toEqual([]);
  expect(await inAddress(page)).toMatch(/^0\.1\..* of the second$/);
  await write(page, 'of the first');
  await redrawn(page, () => devices.nth(1).click());
  await expect.poll(() => listed(page)).toEqual(['of the second']);
  expect(await drawnTexts(page)).toContain('of the second');
  expect(await drawnTexts(page)).not.toContain('of the first');
});

const HOSTILE = '</script><script>document.title="broken"</script><img src=x onerror=alert(1)> %0A & "quotes" \u{1f600}';

test('a page saved with notes contains them, whatever their text', { timeout: 60_000 }, async ({ open }) => {
  const page = await open(`${await servingAlone(TRAINING, secondFailed())}#view=timeline&span=1000.2000`);
  await write(page, HOSTILE);
  await expect.poll(() => inAddress(page)).toContain(HOSTILE);
  await goTo(page, `${hashOf(page)}&file=1&device=1`);
  await write(page, 'of another file');
  await expect.poll(() => listed(page)).toEqual(['of another file']);
  let html = await savedPage(page);
  // First with the engine under test, then with the saved page.
  for (let times = 0; times < 2; times += 1) {
    const again = await open(`${html}#view=timeline`);
    await expect.poll(() => listed(again)).toEqual([HOSTILE]);
    expect(await again.title()).toBe('vramscope');
    await expect.poll(() => again.locator('img').count()).toBe(0);
    expect(await inAddress(again)).toBeUndefined();
    await goTo(again, 'view=timeline&file=1&device=1');
    await expect.poll(() => listed(again)).toEqual(['of another file']);
    if (times > 0) {
      // Notes deleted there stay deleted.
      await notes(again).getByRole('button', { name: 'Delete: of another' }).click();
      await expect.poll(() => inAddress(again)).toMatch(/^0\.0\.1000\.2000 /);
      await again.reload();
      await notes(again).waitFor();
      expect(await listed(again)).toEqual([]);
    } else html = await savedPage(again);
  }
});

test('notes follow their files in a page', async ({ open }) => {
  const page = await open(`${await servingAlone(TRAINING, secondFailed())}#view=timeline&file=1&device=1`, CLOSING);
  await write(page, 'on the file that stays');
  await expect.poll(() => inAddress(page)).toContain('stays');
  await goTo(page, hashOf(page).replace('file=1&device=1', 'file=0'));
  await write(page, 'on the file that is closed');
  await expect.poll(() => listed(page)).toEqual(['on the file that is closed']);
  await page.getByRole('button', { name: /^Close / }).click();
  await expect.poll(async () => (await state(page))['file']).toBe('1');
  await expect.poll(() => listed(page)).toEqual(['on the file that stays']);
  expect(await inAddress(page)).not.toContain('closed');
  const again = await open(`${await savedPage(page)}#view=timeline${TRANSPORT === 'worker' ? '&file=1' : ''}`);
  await expect.poll(() => listed(again)).toEqual(['on the file that stays']);
});

test('notes in an address are limited, and none of them runs', async ({ open }) => {
  const url = await serving(TRAINING);
  const with_ = (text: string) => `${url}#${new URLSearchParams({ view: 'timeline', notes: text })}`;
  const odd = [
    '',
    'x',
    '0.0.9.5 ends before it begins',
    '0.0.1.2',
    '0.0.1.2  ',
    '0.0.-1.2 x',
    '0.0.1.9999999 too late',
    '9.9.1.2 of no device',
  ];
  const page = await open(with_([...odd, `0.0.1.2 ${HOSTILE}`, `0.0.1.3 \u202e\u2066a\u2028b`].join('\n')), { before: axe });
  await expect.poll(() => listed(page)).toEqual(['a b', HOSTILE]);
  expect(await page.title()).toBe('vramscope');
  await expect.poll(() => page.locator('#panel img').count()).toBe(0);
  expect(await violations(page)).toEqual([]);

  const many = Array.from({ length: 200 }, (_, i) => `0.0.${i * 10}.${i * 10 + 5} ${'x'.repeat(2000)}`);
  const full = await open(with_(many.join('\n')));
  await expect.poll(async () => (await listed(full)).length).toBe(100);
  expect((await listed(full))[0]).toBe('x'.repeat(500));
  await full.keyboard.press('c');
  await notes(full).getByText('At most 100 notes').waitFor();
  await notes(full).getByRole('button', { name: 'Close' }).click();
  await notes(full)
    .getByRole('button', { name: /^Delete/ })
    .first()
    .click();
  await full.keyboard.press('c');
  await field(full).fill('y'.repeat(600));
  await notes(full).getByText('At most 500 characters').waitFor();
  await full.keyboard.press('Enter');
  await expect.poll(async () => (await listed(full)).filter((one) => one === 'y'.repeat(500)).length).toBe(1);
  await show(full, 'overview');
});
