// Investigating a recording: comparing moments, searching, walking and reading stacks, with panes that keep their places.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { bytes } from '../src/text/units';
import { example, report } from './command';
import { exact, legend, numberOf, pair, plotBox, redrawn, serving, show, state, tableRows, test, type View } from './page';
import { block, frame, known, pooled, segment, write } from './recordings';
import { onlyServed } from './transport';

const TRAINING = example('training.pickle.zst');
const MIB = 1 << 20;
const BASE = 0x7f0000000000;

const box = (page: Page) => page.getByRole('searchbox');
const heads = (page: Page, caption: string | RegExp) => page.getByRole('grid', { name: caption }).locator('th').allTextContents();
const abs = (text: string) => Math.abs(exact(text.replace('-', '')));

/** Two lines: the first grows from 10 to 12 MiB, the second shrinks from 90 MiB to nothing. */
function growing(): string {
  const entry = (action: string, at: number, size: number, name: string, line: number) => ({
    action,
    addr: BASE + at * MIB,
    size: size * MIB,
    stream: 0,
    frames: [frame(name, `/home/user/a-project-with-a-long-name/a-folder-with-a-long-name-${line}/model.py`, line)],
  });
  const trace = [
    entry('segment_alloc', 0, 200, 'main', 1),
    entry('alloc', 0, 10, 'grows', 2),
    entry('alloc', 10, 90, 'shrinks', 3),
    entry('free_requested', 10, 90, 'shrinks', 3),
    entry('free_completed', 10, 90, 'shrinks', 3),
    entry('alloc', 120, 2, 'grows', 2),
  ];
  return write('growing.json', { segments: [], device_traces: [trace] });
}

test('two moments stand in the order of time, whichever was chosen first, and the largest change comes first', async ({
  open,
}) => {
  for (const hash of ['moment=6&against=3', 'moment=3&against=6']) {
    const page = await open(`${await serving(growing())}#view=moment&${hash}`);
    await page.locator('.moment-view[data-against]:not([aria-busy="true"])').waitFor();
    const [, change, first, second] = await heads(page, /^Change by/);
    expect([change, first, second]).toEqual(['Change↓', 'Event 2', 'The end']);
    const rows = (await tableRows(page, /^Change by/)).map((row) => row.slice(1, 4));
    expect(rows).toEqual([
      ['-94,371,840 bytes', '94,371,840 bytes', '0 bytes'],
      ['2,097,152 bytes', '10,485,760 bytes', '12,582,912 bytes'],
    ]);
    await expect.poll(() => page.locator('.moment-view h2').textContent()).toBe('-88.00 MiB from event 2 to the end');
  }
});

test('changes are sorted by their size, growing or shrinking', async ({ open }) => {
  const { peak_event: peak } = report(TRAINING).devices[0];
  const page = await open(`${await serving(TRAINING)}#view=moment&moment=${peak + 1}&against=5253`);
  await page.locator('.moment-view[data-against]:not([aria-busy="true"])').waitFor();
  const changes = (await tableRows(page, /^Change by/)).map((row) => abs(row[1]!));
  expect(changes).toEqual([...changes].sort((a, b) => b - a));
  expect(changes[0]).toBeGreaterThan(0);
});

test('a row of the allocations shows its stack, is read aloud, and stays chosen when the view changes', async ({ open }) => {
  const page = await open(`${await serving(growing())}#view=allocations`);
  const rows = page.locator('.allocations-view [role=option]');
  await rows.nth(1).click();
  const details = page.locator('.allocations-view .details');
  await details.getByRole('button', { name: 'grows', exact: true }).waitFor();
  await page
    .getByRole('option', { name: /^Size 10\.00 MiB Requested 10\.00 MiB Category .* Line .*model\.py:2 grows/ })
    .waitFor();
  await expect.poll(() => rows.nth(1).locator('> span').nth(3).getAttribute('title')).toContain('model.py:2 grows');
  await redrawn(page, () => page.getByRole('listbox', { name: /^Allocations/ }).press('Enter'));
  await expect.poll(async () => (await state(page))['bytes']).toBeDefined();
  await show(page, 'timeline');
  await show(page, 'allocations');
  await page.locator('#allocation-1[aria-selected="true"]').waitFor();
  // So does an allocation that was selected elsewhere, in any order of the rows.
  await page.getByRole('group', { name: 'Sort by' }).getByRole('button', { name: 'Size, descending' }).click();
  await page.locator('#allocation-1[aria-selected="true"]').waitFor();
});

test.for([900, 1100, 1280, 1440])('line and function stay in the cell, %d pixels wide', async (width, { open }) => {
  const page = await open(`${await serving(growing())}#view=allocations`, { viewport: { width, height: 720 } });
  const name = page.locator('.allocations-view [role=option] .label-name').first();
  await name.waitFor();
  const cell = (await page.locator('.allocations-view [role=option]').first().locator('> span').nth(3).boundingBox())!;
  const inside = (await name.boundingBox())!;
  await expect.poll(() => name.textContent()).toBe('model.py:3 shrinks');
  expect(inside.x + inside.width).toBeLessThanOrEqual(cell.x + cell.width + 1);
});

test.for([1280, 1440])('no column of the allocations is cut, %d pixels wide', async (width, { open }) => {
  const page = await open(`${await serving(example('oom.pickle'))}#view=allocations`, { viewport: { width, height: 720 } });
  const cells = page.locator('.allocations-view [role=option]').first().locator('> span');
  await expect.poll(() => cells.last().textContent()).toMatch(/Address [0-9a-f]+_\d+$/);
  for (const cell of await cells.all()) {
    const { x, width: wide } = (await cell.boundingBox())!;
    expect(x + wide).toBeLessThanOrEqual(width);
    expect(await cell.evaluate((e) => e.scrollWidth - e.clientWidth)).toBe(0);
  }
});

test('operators have two spellings, and fields two signs', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(await serving(file));
  const matches = async (text: string, count: number) => {
    await box(page).fill(text);
    await page.locator(`#search-result [data-matches="${count}"]`).waitFor();
  };
  const ofStream = (n: number) => made.filter(({ stream }) => stream === n).length;
  await matches('layer1 or layer2', made.filter(({ line }) => line === 11 || line === 12).length);
  await matches('layer1 || layer2', made.filter(({ line }) => line === 11 || line === 12).length);
  await matches('not stream=2', 30 - ofStream(2));
  await matches('stream!=2', 30 - ofStream(2));
  await matches('!stream:2 && layer1', made.filter(({ stream, line }) => stream !== 2 && line === 11).length);
  // A block lives for a millisecond until it is freed. The others outlive the recording.
  await matches('lived:<=1ms', 15);
  await matches('lived:>1ms freed:never', 15);
  await matches('lived:1', 15);
  await matches('size:>=30MiB', made.filter((one) => one.bytes >= 30 * MIB).length);
});

test('the words that are not understood are underlined and named', async ({ open }) => {
  const page = await open(await serving(known(30).file));
  await box(page).fill('layer2 colour:red lived:soon');
  await expect.poll(() => page.locator('#search-result').textContent()).toContain('ignored: colour:red lived:soon');
  await expect.poll(() => page.locator('.search-marks mark').allTextContents()).toEqual(['colour:red', 'lived:soon']);
  await box(page).fill('layer2 /(/');
  await expect.poll(() => page.locator('.search-marks mark').allTextContents()).toEqual(['/(/']);
});

test('the box completes fields and the values of the recording', async ({ open }) => {
  const page = await open(await serving(TRAINING));
  await page.getByRole('tab', { name: 'Allocations' }).click();
  await box(page).focus();
  await page.keyboard.type('cat');
  const choices = page.getByRole('listbox', { name: 'Completions' });
  await choices.getByRole('option', { name: /^category:/ }).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect.poll(() => box(page).inputValue()).toBe('category:');
  await choices.getByRole('option', { name: 'category:optimizer_state' }).waitFor();
  await page.keyboard.type('opt');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await expect.poll(() => box(page).inputValue()).toBe('category:optimizer_state ');
  await page.locator('#search-result [data-matches]').waitFor();
  // Without a choice, Tab leaves the box.
  await page.keyboard.press('Tab');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Help');
});

test('the help has examples that run, and keeps searches', async ({ open }) => {
  const page = await open(await serving(TRAINING));
  await box(page).focus();
  await page.getByRole('note').getByRole('button', { name: 'category:gradient' }).click();
  await expect.poll(() => box(page).inputValue()).toBe('category:gradient');
  await page.getByRole('button', { name: 'Help for the search' }).click();
  await page.getByRole('button', { name: 'Save this search' }).click();
  await page.reload();
  await box(page).fill('');
  await box(page).focus();
  await page
    .getByRole('region', { name: 'Saved searches' })
    .getByRole('button', { name: 'category:gradient', exact: true })
    .click();
  await expect.poll(() => box(page).inputValue()).toBe('category:gradient');
  await page.getByRole('button', { name: 'Help for the search' }).click();
  await page.getByRole('button', { name: 'Remove the saved search category:gradient' }).click();
  await expect
    .poll(() =>
      page
        .getByRole('region', { name: 'Saved searches' })
        .getByRole('button', { name: 'category:gradient', exact: true })
        .count(),
    )
    .toBe(0);
});

test('only matches: the timeline stacks them from zero, and one switch turns that off', async ({ open }) => {
  const { file, made } = known(30);
  const page = await open(`${await serving(file)}#view=timeline&moment=90`);
  const described = () => page.locator('.timeline-over').getAttribute('aria-label');
  await redrawn(page, () => box(page).fill('stream:2'));
  // Every odd block is freed at once; the even ones stay.
  const kept = made.filter(({ stream }, i) => stream === 2 && i % 2 === 0).reduce((sum, one) => sum + one.bytes, 0);
  const last = made.findLast(({ stream }, i) => stream === 2 && i % 2 === 1)!;
  const before = made
    .filter((one, i) => one.stream === 2 && i % 2 === 0 && i < made.indexOf(last))
    .reduce((sum, one) => sum + one.bytes, 0);
  const peak = Math.max(kept, before + last.bytes);
  await expect.poll(described).toContain(`at most ${bytes(peak)} allocated`);
  await expect.poll(() => legend(page).textContent()).toContain('match, others are left out');
  // The line of all reserved bytes would be far above the matches.
  expect(await legend(page).textContent()).not.toContain('reserved');
  const all = made.filter((_, i) => i % 2 === 0).reduce((sum, one) => sum + one.bytes, 0);
  await redrawn(page, () => page.getByLabel('Only matches').uncheck());
  await expect.poll(async () => (await described())!.match(/at most ([\d.]+ \w+)/)![1]).not.toBe(bytes(peak));
  await expect.poll(() => legend(page).textContent()).toContain('match, others are faded');
  expect(await legend(page).textContent()).toContain('reserved');
  // State keeps the places of blocks, and has the sum.
  await page.getByLabel('Only matches').check();
  await page.getByRole('tab', { name: 'State' }).click();
  await page.locator(`.state-view [data-matching="${kept}"]`).waitFor();
  await expect
    .poll(() => page.locator('.state-view .state-head').textContent())
    .toContain(`${bytes(kept)} of ${bytes(all)} match`);
});

test('the eye in the legend hides a category, and the rest is stacked without it', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=timeline`);
  await legend(page).getByRole('button', { name: 'Hide activation' }).waitFor();
  const described = () => page.locator('.timeline-over').getAttribute('aria-label');
  const before = (await described())!;
  await redrawn(page, () => legend(page).getByRole('button', { name: 'Hide activation' }).click());
  await expect.poll(described).not.toBe(before);
  expect(await described()).toMatch(/at most \d+\.\d\d MiB allocated/);
  await redrawn(page, () => legend(page).getByRole('button', { name: 'Hide activation' }).click());
  await expect.poll(described).toBe(before);
});

test.for([900, 1280, 1440, 1920, 2560])('the entries of the legend do not overlap, %d pixels wide', async (width, { open }) => {
  for (const view of ['timeline', 'moment']) {
    const page = await open(`${await serving(TRAINING)}#view=${view}&search=category:gradient&matches=marked`, {
      viewport: { width, height: 800 },
    });
    await expect.poll(() => legend(page).textContent()).toContain('others are faded');
    const overlaps = await legend(page)
      .locator('li')
      .evaluateAll((all) => {
        const places = all.map((li) => {
          const range = document.createRange();
          range.selectNodeContents(li);
          return { text: li.textContent, box: range.getBoundingClientRect() };
        });
        return places.flatMap((a, i) =>
          places
            .slice(i + 1)
            .filter(
              ({ box: b }) =>
                a.box.left < b.right - 1 && b.left < a.box.right - 1 && a.box.top < b.bottom - 1 && b.top < a.box.bottom - 1,
            )
            .map((b) => `${a.text} | ${b.text}`),
        );
      });
    expect(overlaps).toEqual([]);
  }
});

test('colors by layer say why all are alike', async ({ open }) => {
  const page = await open(`${await serving(known(6).file)}#view=timeline&color=layer`);
  await expect.poll(() => legend(page).textContent()).toContain('no modules are recorded');
});

test('requested bytes above allocated bytes are explained', async ({ open }) => {
  const blocks = [block(BASE, 12 * MIB), block(BASE + 12 * MIB, 8 * MIB, 'active_pending_free')];
  const file = write('pending.json', { segments: [segment(BASE, 20 * MIB, blocks)], device_traces: [[]] });
  const page = await open(`${await serving(file)}#view=overview`);
  await page.getByText('Requested bytes exceed allocated bytes').waitFor();
  const plain = await open(`${await serving(known(6).file)}#view=overview`);
  await plain.locator('.overview[aria-busy="false"]').waitFor();
  await expect.poll(() => plain.getByText('Requested bytes exceed').count()).toBe(0);
});

test('a click hides the tooltip, and a double click zooms to the block, then back', async ({ open }) => {
  const page = await open(`${await serving(known(6).file)}#view=timeline`);
  const plot = await plotBox(page);
  const [x, y] = [plot.x + plot.width * 0.9, plot.y + plot.height * 0.9];
  await page.mouse.move(x, y);
  await page.locator('.part-tooltip').waitFor();
  await page.mouse.click(x, y);
  await page.locator('aside[data-selected]').waitFor();
  await expect.poll(() => page.locator('.part-tooltip').count()).toBe(0);
  await page.mouse.move(x - 3, y);
  await page.locator('.part-tooltip').waitFor();
  await page.mouse.dblclick(x, y);
  await expect.poll(async () => (await state(page))['bytes']).toBeDefined();
  const selected = (await state(page))['selected'];
  expect(selected).toBeDefined();
  await page.waitForTimeout(300);
  const now = await plotBox(page);
  await page.mouse.dblclick(now.x + now.width / 2, now.y + now.height / 2);
  await expect.poll(async () => (await state(page))['bytes']).toBeUndefined();
});

test('a zoom in the call tree filters the table and the stack, and is in the address', async ({ open }) => {
  const page = await open(`${await serving(known(30).file)}#view=moment&moment=90&by=line`);
  const lines = async () => (await tableRows(page, 'Allocated by line')).map((row) => row[0]);
  await expect.poll(async () => (await lines()).length).toBe(2);
  const tree = page.getByLabel(/^Call tree: arrows/);
  await tree.focus();
  // At the end of the tree, an arrow key leads nowhere; it does not change the moment either.
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await expect.poll(async () => (await lines()).length).toBe(1);
  const [line] = await lines();
  const zoomed = await page.locator('.crumb[aria-current="true"]').textContent();
  expect(line).toBe(zoomed);
  await expect.poll(async () => (await state(page))['calltree']).toMatch(/^\d+\.\d+$/);
  expect((await state(page))['moment']).toBe('90');
  await page.reload();
  await expect.poll(lines).toEqual([line]);
  await expect.poll(() => page.locator('.crumb[aria-current="true"]').textContent()).toBe(zoomed);
  await page.getByRole('button', { name: 'Reset zoom' }).click();
  await expect.poll(async () => (await lines()).length).toBe(2);
  await expect.poll(async () => (await state(page))['calltree']).toBeUndefined();
});

test('an invalid setting in What-if keeps the table', async ({ open }) => {
  const page = await open(`${await serving(example('oom.pickle'))}#view=whatif`);
  await page.locator('.whatif-view[data-settings]').waitFor();
  const rows = await tableRows(page, /^Settings/);
  const field = page.getByLabel('Custom setting');
  await field.fill('max_split_size_mb:lots');
  await field.press('Enter');
  await page.getByText('The table is for the last valid input').waitFor();
  expect(await tableRows(page, /^Settings/)).toEqual(rows);
});

test('reading a recording shows progress', async ({ open, skip }) => {
  onlyServed(skip, 'a delay before its recordings');
  const page = await open(await serving(known(6).file), {
    draws: false,
    before: `const plain = fetch; fetch = async (path, init) => {
      if (String(path).endsWith('api/progress')) return Response.json({ name: 'run.pickle', bytes: 3 << 20, total: 12 << 20 });
      if (String(path).endsWith('api/recordings')) await new Promise((done) => setTimeout(done, 1500));
      return plain(path, init);
    };`,
  });
  const bar = page.getByRole('progressbar', { name: 'Reading' });
  await bar.waitFor();
  await page.getByText('run.pickle: 3.00 MiB of 12.00 MiB read').waitFor();
  expect([await bar.getAttribute('value'), await bar.getAttribute('max')]).toEqual([String(3 << 20), String(12 << 20)]);
  await expect.poll(() => page.getByRole('timer').textContent()).toBe('1 s');
  await page.locator('html[data-drawn]').waitFor({ state: 'attached' });
  await expect.poll(() => page.getByRole('progressbar').count()).toBe(0);
});

test('the first code sample of the start page is not cut', async ({ open }) => {
  const page = await open(await serving(), { draws: false });
  const sample = page.locator('.start pre').first();
  await sample.waitFor();
  expect(await sample.evaluate((pre) => pre.scrollWidth - pre.clientWidth)).toBe(0);
});

test.for(['light', 'dark'] as const)('free memory stands out from the ground in State, %s', async (colorScheme, { open }) => {
  const page = await open(`${await serving(pooled())}#view=state`, { colorScheme });
  await page.locator('.state-view[data-moment]').waitFor();
  const contrast = await page.evaluate(() => {
    const luminance = (token: string) => {
      const probe = document.createElement('span');
      probe.style.color = `var(--${token})`;
      document.body.append(probe);
      const channels = getComputedStyle(probe)
        .color.match(/[\d.]+/g)!
        .slice(0, 3)
        .map(Number);
      probe.remove();
      const [r = 0, g = 0, b = 0] = channels.map((n) =>
        n / 255 <= 0.04045 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4,
      );
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [free, ground] = [luminance('free'), luminance('ground')];
    return (Math.max(free, ground) + 0.05) / (Math.min(free, ground) + 0.05);
  });
  // It was 1.05 in the dark scheme.
  expect(contrast).toBeGreaterThan(1.5);
});

const height = async (page: Page, selector: string) => (await page.locator(selector).first().boundingBox())!.height;

test('call tree and table have room at 1280 x 720', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment`, { viewport: { width: 1280, height: 720 } });
  await page.locator('.moment-view:not([aria-busy="true"])').waitFor();
  expect(await height(page, '.flame-box')).toBeGreaterThanOrEqual(60);
  expect(await height(page, '.moment-view .table-box')).toBeGreaterThanOrEqual(180);
  // Nothing is scrolled for it.
  expect(await page.locator('#panel').evaluate((panel) => panel.scrollHeight - panel.clientHeight)).toBe(0);
});

test('a boundary moves by pointer and keys, closes its pane, and remembers its place', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment`, { viewport: { width: 1280, height: 720 } });
  const pane = page.locator('[data-split="stack"] > .split-pane').last();
  const width = async () => (await pane.boundingBox())!.width;
  const bar = page.getByRole('separator', { name: /^Resize the stack/ });
  await bar.waitFor();
  const before = await width();
  const { x, y, height } = (await bar.boundingBox())!;
  await page.mouse.move(x + 3, y + height / 3);
  await page.mouse.down();
  await page.mouse.move(x - 97, y + height / 3, { steps: 4 });
  await page.mouse.up();
  await expect.poll(width).toBeCloseTo(before + 100, 0);
  await bar.press('ArrowRight');
  await expect.poll(width).toBeCloseTo(before + 84, 0);
  await page.reload();
  await bar.waitFor();
  await expect.poll(width).toBeCloseTo(before + 84, 0);
  await bar.press('Enter');
  await expect.poll(() => pane.isVisible()).toBe(false);
  await page.reload();
  await bar.waitFor();
  await expect.poll(() => pane.isVisible()).toBe(false);
  await page.getByRole('button', { name: 'Expand the stack' }).click();
  await expect.poll(width).toBeCloseTo(before + 84, 0);
  await bar.dblclick({ position: { x: 2, y: 8 } });
  await expect.poll(width).toBeCloseTo(before, 0);
  // The strip of the timeline, too; the view below takes the room.
  const strip = page.getByRole('separator', { name: /^Resize the timeline/ });
  const plot = await plotBox(page);
  await redrawn(page, () => strip.press('Shift+ArrowDown'));
  await expect.poll(async () => (await plotBox(page)).height).toBeCloseTo(plot.height + 80, 0);
});

/** The panes that a boundary resizes, in each view; the timeline is above every view but its own. */
const BOUNDARIES: [view: View, panes: string[]][] = [
  ['timeline', ['details']],
  ['state', ['events', 'details', 'free memory', 'request beside the holes']],
  ['segments', ['tables', 'pools']],
  ['moment', ['call tree', 'stack']],
  ['steps', ['table of steps']],
  ['compare', ['changes']],
  ['whatif', ['chosen setting']],
];

test('every boundary between panes moves', async ({ open }) => {
  const page = await open(await serving(TRAINING, example('oom.pickle')));
  for (const [view, panes] of BOUNDARIES) {
    await show(page, view);
    const all = view === 'timeline' ? panes : ['timeline', ...panes];
    const labels = () =>
      page
        .getByRole('separator')
        .evaluateAll((bars) => bars.map((bar) => /Resize the (.*) with the arrow/.exec(bar.ariaLabel!)![1]));
    await expect.poll(async () => (await labels()).sort()).toEqual([...all].sort());
    for (const pane of panes) {
      const bar = page.getByRole('separator', { name: new RegExp(`^Resize the ${pane} with`) });
      const isBeside = (await bar.getAttribute('aria-orientation')) === 'vertical';
      const at = async () => (await bar.boundingBox())![isBeside ? 'x' : 'y'];
      const before = await at();
      await bar.press(isBeside ? 'ArrowRight' : 'ArrowDown');
      await expect.poll(async () => Math.abs((await at()) - before)).toBeGreaterThan(8);
    }
  }
});

test('a frame is searched, copied, and opened in an editor', async ({ open }) => {
  const page = await open(`${await serving(known(30).file)}#view=moment&moment=90`, {
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const stack = page.getByRole('region', { name: 'Stack of the chosen row' });
  const name = stack.locator('.frame-name').first();
  await name.waitFor();
  const [place] = await stack.locator('.frame-place').evaluateAll((all) => all.map((one) => one.getAttribute('title')!));
  const link = stack.getByRole('link', { name: /^Open model\.py/ }).first();
  await expect.poll(() => link.getAttribute('href')).toBe(`vscode://file${place}`);
  await name.hover();
  await stack.getByRole('button', { name: /^Copy/ }).first().click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(place);
  const label = (await name.getAttribute('title'))!.replace('Search for the allocations through ', '');
  await name.click();
  await expect.poll(() => box(page).inputValue()).toBe(`"${label}"`);
  await page.locator('#search-result [data-matches]').waitFor();
  // Another editor, chosen once.
  await page.getByRole('button', { name: 'Keys' }).click();
  await page.getByLabel('Editor for frames').fill('idea://open?file={file}&line={line}');
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  const [, file, line] = /^(.*):(\d+)$/.exec(place!)!;
  await expect.poll(() => link.getAttribute('href')).toBe(`idea://open?file=${file}&line=${line}`);
});

test('the keyboard reaches the timeline, walks the blocks and zooms; what it does is spoken', async ({ open }) => {
  const { file, made } = known(6);
  const page = await open(`${await serving(file)}#view=timeline&moment=18`);
  const timeline = page.getByRole('slider', { name: /^Timeline/ });
  await expect.poll(() => timeline.getAttribute('tabindex')).toBe('0');
  await timeline.focus();
  const spoken = () => timeline.getAttribute('aria-valuetext');
  const live = made.filter((_, i) => i % 2 === 0);
  await expect.poll(spoken).toContain(`${bytes(live.reduce((sum, one) => sum + one.bytes, 0))} allocated`);
  await page.keyboard.press('PageUp');
  await expect.poll(spoken).toContain(`selected: ${bytes(Math.max(...live.map((one) => one.bytes)))}`);
  await page.keyboard.press('PageDown');
  await page.keyboard.press('PageDown');
  await page.keyboard.press('PageDown');
  await expect.poll(spoken).toContain(`selected: ${bytes(live[0]!.bytes)}`);
  await page.keyboard.press('PageUp');
  await expect.poll(spoken).toContain(`selected: ${bytes(live[1]!.bytes)}`);
  expect(await spoken()).toContain('model.py');
  await redrawn(page, () => page.keyboard.press('z'));
  await expect.poll(async () => pair((await state(page))['bytes'])[1] > 0).toBe(true);
  await page.keyboard.press('ArrowUp');
  await expect.poll(async () => (await state(page))['moment']).toBe('17');
});

test('the list of keys is searchable', async ({ open }) => {
  const page = await open(await serving(TRAINING));
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.locator('dt').first().waitFor();
  const all = await dialog.locator('dt').count();
  await dialog.getByRole('searchbox', { name: 'Find a key' }).fill('zoom');
  await expect.poll(() => dialog.locator('dt').count()).toBeLessThan(all);
  for (const text of await dialog.locator('dd').allTextContents()) expect(text.toLowerCase()).toContain('zoom');
  await expect.poll(() => dialog.locator('dt').allTextContents()).toContain('z');
});

test('pools, categories and groups are named in words', async ({ open }) => {
  const page = await open(`${await serving(TRAINING)}#view=moment&by=category`);
  await page.locator('.moment-view:not([aria-busy="true"])').waitFor();
  const names = (await tableRows(page, 'Allocated by category')).map((row) => row[0]);
  expect(names).toContain('optimizer state');
  expect(names.filter((name) => name!.includes('_'))).toEqual([]);
  const state = await open(`${await serving(pooled())}#view=state`);
  await state.locator('.state-view[data-moment]').waitFor();
  await expect.poll(() => numberOf(state, '.state-view', 'data-moment')).toBeGreaterThanOrEqual(0);
});
