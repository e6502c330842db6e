// The page with the keyboard only.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { VIEWS as TITLES } from '../src/state/place';
import { example, report } from './command';
import { VIEWS, numberOf, pair, redrawn, serving, show, state, test } from './page';

const OOM = example('oom.pickle');
const LEAK = example('leak.pickle');
const range = async (page: Page) => pair((await state(page))['range']);
const selectedTab = (page: Page) => page.getByRole('tab', { selected: true }).textContent();

test('digits show the views, arrow keys move between tabs', async ({ open }) => {
  const page = await open(await serving(LEAK));
  for (const [i, view] of [...VIEWS.slice(0, 9).entries()].reverse()) {
    await page.keyboard.press(String(i + 1));
    await expect.poll(() => selectedTab(page)).toBe(TITLES[view]);
  }
  await page.getByRole('tab', { selected: true }).focus();
  await page.keyboard.press('ArrowLeft');
  await expect.poll(() => selectedTab(page)).toBe(Object.values(TITLES).at(-1));
  await page.keyboard.press('Home');
  await expect.poll(() => selectedTab(page)).toBe('Overview');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Overview');
});

test('plus, minus, arrows and 0 zoom and move the timeline', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline`);
  await redrawn(page, () => page.keyboard.press('+'));
  await redrawn(page, () => page.keyboard.press('+'));
  await expect.poll(async () => (await range(page))[1] - (await range(page))[0]).toBeCloseTo(2062 / 2.25, 0);
  const [from] = await range(page);
  await redrawn(page, () => page.keyboard.press('ArrowRight'));
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(from + 206.2 / 2.25, 0);
  await redrawn(page, () => page.keyboard.press('ArrowLeft'));
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(from, 0);
  await redrawn(page, () => page.keyboard.press('-'));
  await expect.poll(async () => (await range(page))[1] - (await range(page))[0]).toBeCloseTo(2062 / 1.5, 0);
  await redrawn(page, () => page.keyboard.press('0'));
  await expect.poll(async () => (await state(page))['range']).toBeUndefined();
});

test('w and s zoom, a and d scroll, like the arrow keys', async ({ open }) => {
  const page = await open(`${await serving(OOM)}#view=timeline`);
  const width = async () => (await range(page))[1] - (await range(page))[0];
  await redrawn(page, () => page.keyboard.press('w'));
  await expect.poll(width).toBeCloseTo(2062 / 1.5, 0);
  await redrawn(page, () => page.keyboard.press('Shift+W'));
  await expect.poll(width).toBeCloseTo(2062 / 4.5, 0);
  const [from] = await range(page);
  await redrawn(page, () => page.keyboard.press('d'));
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(from + 206.2 / 4.5, 0);
  await redrawn(page, () => page.keyboard.press('a'));
  await expect.poll(async () => (await range(page))[0]).toBeCloseTo(from, 0);
  await redrawn(page, () => page.keyboard.press('s'));
  await expect.poll(width).toBeCloseTo(2062 / 3, 0);
});

test('arrows and comma step through moments, m jumps to marks', async ({ open }) => {
  const [oom] = report(OOM).devices[0].ooms;
  const page = await open(`${await serving(OOM)}#view=timeline&moment=100`);
  await page.keyboard.press('ArrowDown');
  await expect.poll(async () => (await state(page))['moment']).toBe('101');
  await page.keyboard.press('Shift+ArrowDown');
  await expect.poll(async () => (await state(page))['moment']).toBe('201');
  await page.keyboard.press(',');
  await expect.poll(async () => (await state(page))['moment']).toBe('200');
  await page.keyboard.press('m');
  await expect.poll(async () => (await state(page))['moment']).toBe(String(oom.event + 1));
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Shift+M');
  await expect.poll(async () => (await state(page))['moment']).toBe(String(oom.event + 1));
});

test('a question mark shows the keys, Escape closes them', async ({ open }) => {
  const page = await open(await serving(LEAK));
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.waitFor();
  await expect.poll(() => dialog.textContent()).toContain('Search');
  // The page behind the dialog ignores keys.
  await page.keyboard.press('3');
  expect(await selectedTab(page)).toBe('Overview');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Keys' }).click();
  await dialog.getByRole('button', { name: 'Close' }).press('Enter');
  await dialog.waitFor({ state: 'hidden' });
});

test('a slash focuses the search, and typed keys are text there', async ({ open }) => {
  const page = await open(await serving(LEAK));
  await page.keyboard.press('/');
  const box = page.getByRole('searchbox');
  expect(await box.evaluate((input) => input === document.activeElement)).toBe(true);
  await page.keyboard.type('123?');
  await expect.poll(() => box.inputValue()).toBe('123?');
  expect(await selectedTab(page)).toBe('Overview');
  await page.keyboard.press('Escape');
  await expect.poll(() => box.inputValue()).toBe('123?');
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('timeline');
  await page.keyboard.press('Escape');
  await expect.poll(() => box.inputValue()).toBe('');
});

test('Escape clears the selection, then the search', async ({ open }) => {
  const page = await open(`${await serving(LEAK)}#view=timeline&selected=5&search=stream:0`);
  await page.locator('aside[data-selected]').waitFor();
  await page.keyboard.press('Escape');
  await expect.poll(() => state(page)).toEqual({ view: 'timeline', search: 'stream:0' });
  await page.keyboard.press('Escape');
  await expect.poll(() => state(page)).toEqual({ view: 'timeline' });
});

declare global {
  /** Numbers of the controls that had the focus. */
  var reached: Set<string | undefined>;
}

/** Returns the reachable controls; of radio buttons only the checked one, as in browsers. */
const controls = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const all = document.querySelectorAll<HTMLElement>('button, select, input, a[href], [tabindex]');
    const mine = [...all].filter(
      (e) => e.checkVisibility() && e.tabIndex >= 0 && !e.matches(':disabled, input[type=radio]:not(:checked)'),
    );
    mine.forEach((e, i) => (e.dataset['number'] = String(i)));
    globalThis.reached = new Set();
    addEventListener('focusin', ({ target }) => globalThis.reached.add((target as HTMLElement).dataset['number']));
    return mine.map((e) => e.outerHTML.slice(0, 120));
  });

/** Returns elements with keys but outside the Tab order; a table needs one row in it. */
const unfocusable = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const alone = [...document.querySelectorAll<HTMLElement>('[role=application], [role=listbox], [role=slider]')];
    const groups = [...document.querySelectorAll<HTMLElement>('[role=grid]:has(tr[data-row]), [role=tablist]')];
    const bad = [
      ...alone.filter((e) => e.tabIndex < 0),
      ...groups.filter((e) => e.querySelectorAll('tr[tabindex="0"], [role=tab][tabindex="0"]').length !== 1),
    ];
    return bad.map((e) => e.outerHTML.slice(0, 120));
  });

test('Tab reaches every control, and no control traps the focus', { timeout: 120_000 }, async ({ open }) => {
  const page = await open(await serving(LEAK, OOM));
  await page.locator('.legend button').first().waitFor();
  const focused = () => page.evaluate(() => (document.activeElement as HTMLElement).dataset['number']);
  for (const view of VIEWS) {
    await show(page, view);
    const all = await controls(page);
    expect(all.length).toBeGreaterThan(10);
    expect(await unfocusable(page), view).toEqual([]);
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    const unreached = () => page.evaluate((all) => all.filter((_, i) => !globalThis.reached.has(String(i))), all);
    for (let i = 0; i < 2 * all.length + 20 && (i % 20 > 0 || (await unreached()).length > 0); i += 1)
      await page.keyboard.press('Tab');
    expect(await unreached(), view).toEqual([]);
    const here = await focused();
    await page.keyboard.press('Shift+Tab');
    await expect.poll(focused).not.toBe(here);
  }
});

test('clickable elements have a role that says so', async ({ open }) => {
  const page = await open(await serving(LEAK, OOM));
  for (const view of VIEWS) {
    await show(page, view);
    // A hand cursor promises a control.
    const hands = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>('body *')]
        .filter((e) => e.checkVisibility() && getComputedStyle(e).cursor === 'pointer')
        .filter(
          (e) =>
            !e.closest(
              'button, a, summary, select, label, option, tr[tabindex], [role=option], [role=slider], [role=application], [role=img], input',
            ),
        )
        .map((e) => e.outerHTML.slice(0, 100)),
    );
    expect(hands, view).toEqual([]);
  }
});

test('buttons, menus, tables and lists work with Enter, Space and arrows', async ({ open }) => {
  const page = await open(await serving(OOM));
  // A finding leads to its view.
  const link = page.getByRole('button', { name: 'Show the holders' });
  await link.focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => selectedTab(page)).toBe('Moment');
  await page.locator('.moment-view[aria-busy="false"]').waitFor();
  // A menu of choices, and radio buttons.
  await page.getByRole('combobox', { name: 'Group by' }).focus();
  await page.keyboard.press('ArrowUp');
  await page.getByRole('grid', { name: 'Allocated by stack' }).waitFor();
  await page.getByRole('radio', { name: 'My code' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => page.getByRole('radio', { name: 'Python' }).isChecked()).toBe(true);
  // A column's head sorts.
  const head = page.getByRole('columnheader', { name: 'Blocks' });
  await head.getByRole('button').focus();
  await page.keyboard.press('Space');
  await expect.poll(() => head.getAttribute('aria-sort')).toBe('descending');
  // The flame graph.
  await page.getByRole('application', { name: /^Call tree/ }).focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Reset zoom' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Reset zoom' }).waitFor({ state: 'hidden' });
  // A menu.
  const save = page.getByRole('button', { name: /^Save flame/ });
  await save.focus();
  await page.keyboard.press('Enter');
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  await expect.poll(focused).toBe('Picture as PNG');
  await page.keyboard.press('ArrowDown');
  expect(await focused()).toBe('Picture as SVG');
  await page.keyboard.press('Escape');
  await page.getByRole('menu').waitFor({ state: 'hidden' });
  expect(await save.evaluate((button) => button === document.activeElement)).toBe(true);
  // Rows of a table.
  await show(page, 'segments');
  const first = page.getByRole('grid', { name: 'Reserved ranges' }).locator('tr[data-row="0"]');
  await first.focus();
  await page.keyboard.press('ArrowDown');
  await page.locator('tr[data-row="1"][aria-selected="true"]').waitFor();
  expect(await page.evaluate(() => (document.activeElement as HTMLElement).dataset['row'])).toBe('1');
  // The list of events and the slider.
  await show(page, 'state');
  const before = await numberOf(page, '.state-view', 'data-moment');
  await page.getByRole('listbox').focus();
  await page.keyboard.press('ArrowDown');
  await expect.poll(() => numberOf(page, '.state-view', 'data-moment')).toBe(before + 1);
  await page.getByRole('slider', { name: 'Moment', exact: true }).focus();
  await page.keyboard.press('PageUp');
  await expect.poll(() => numberOf(page, '.state-view', 'data-moment')).toBe(before - 99);
  await page.keyboard.press('End');
  await expect.poll(() => numberOf(page, '.state-view', 'data-moment')).toBe(2061);
  // The theme.
  const theme = page.getByRole('button', { name: /^Theme/ });
  await theme.focus();
  await page.keyboard.press('Space');
  await expect.poll(() => page.locator('html').getAttribute('data-theme')).toBe('light');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.locator('html').getAttribute('data-theme')).toBe('dark');
});
