// Pictures of views for the documentation: `npm run screenshots`.
//
// It uses our own recordings: the larger ones of shared/data/phantom if present, else the examples. VRAMSCOPE_SHOW names others, separated
// as in PATH, which are shown in every view. VRAMSCOPE_SCREENSHOTS replaces the output folder docs/viewer.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { data, example, jobOf } from './command';
import { legend, panel, plotBox, ready, redrawn, serving, servingRanks, test, type View } from './page';
import { smaller } from './png';

const folder = resolve(process.env['VRAMSCOPE_SCREENSHOTS'] ?? join(import.meta.dirname, '../../docs/viewer'));

/** The pictures that the documentation shows (docs/view.md), and their colors. */
const PICTURES = {
  overview: 'light',
  timeline: 'dark',
  state: 'light',
  segments: 'light',
  allocations: 'dark',
  moment: 'dark',
  compare: 'light',
  whatif: 'dark',
} as const satisfies Partial<Record<View, 'light' | 'dark'>>;

interface Subject {
  files: string[];
  /** The address's parameters besides the view. */
  hash?: string;
  /** An action before the picture is taken. */
  act?: (page: Page) => Promise<void>;
}

/** Selects a tall item at a place of the timeline. */
const selectAt = (right: number, up: number) => async (page: Page) => {
  const box = await plotBox(page);
  await page.mouse.click(box.x + right * box.width, box.y + (1 - up) * box.height);
  await page.locator('[data-selected]').first().waitFor();
  await page.mouse.move(5, 5);
};

const chooseSetting = (row: number) => async (page: Page) => {
  await page
    .getByRole('grid', { name: /^Settings/ })
    .locator(`tr[data-row="${row}"]`)
    .click();
  await legend(page).getByText('reserved with').waitFor();
};

const allCalls = (page: Page) => page.getByRole('group', { name: 'Calls' }).getByRole('radio', { name: 'All' }).check();

const larger: Partial<Record<View, Subject>> = {
  overview: { files: ['churn-torch2.11-default-8500mb.pickle'] },
  timeline: { files: ['resnet50-torch2.11-default.pickle'], hash: 'axis=time', act: selectAt(0.88, 0.22) },
  state: { files: ['gpt2-torch2.11-default.pickle'] },
  segments: { files: ['gpt2-torch2.11-default.pickle'] },
  moment: { files: ['gpt2-torch2.11-default.pickle'], hash: 'by=stack', act: allCalls },
  compare: { files: ['gpt2-torch2.11-default.pickle', 'resnet50-torch2.11-default.pickle'] },
  whatif: { files: ['churn-torch2.11-default-8500mb.pickle'], act: chooseSetting(0) },
};

const examples: Partial<Record<View, Subject>> = {
  overview: { files: ['oom.pickle'] },
  timeline: { files: ['training.pickle.zst'], hash: 'axis=time', act: selectAt(0.88, 0.22) },
  state: { files: ['training.pickle.zst'] },
  segments: { files: ['oom.pickle'] },
  moment: { files: ['training.pickle.zst'], hash: 'by=stack', act: allCalls },
  compare: { files: ['leak.pickle', 'training.pickle.zst'] },
  whatif: { files: ['oom.pickle'], act: chooseSetting(0) },
};

/** The recording for views that are not listed. */
const ANY: Subject = { files: ['oom.pickle'] };

function subject(view: View): Subject {
  const given = process.env['VRAMSCOPE_SHOW']?.split(delimiter).filter(Boolean);
  if (given?.length) return { files: given.map((file) => resolve(process.env['INIT_CWD'] ?? '.', file)) };
  const { files, ...rest } = larger[view] ?? ANY;
  const paths = files.map((file) => join(data ?? '', 'phantom', file));
  if (data && paths.every((path) => existsSync(path))) return { files: paths, ...rest };
  const carried = examples[view] ?? ANY;
  return { ...carried, files: carried.files.map(example) };
}

test.for(Object.entries(PICTURES) as [View, 'light' | 'dark'][])('%s, %s', async ([view, colorScheme], { open }) => {
  mkdirSync(folder, { recursive: true });
  const { files, hash = '', act } = subject(view);
  const page = await open(`${await serving(...files)}#view=${view}&${hash}`, { colorScheme });
  await ready(page, view);
  await act?.(page);
  await page.locator('.legend li').first().waitFor();
  // Wait again, so that names, legend and small pictures are complete.
  await redrawn(page, () => page.setViewportSize({ width: 1281, height: 800 }));
  await redrawn(page, () => page.setViewportSize({ width: 1280, height: 800 }));
  await panel(page).waitFor();
  await page.waitForLoadState('networkidle');
  writeFileSync(join(folder, `${view}.png`), smaller(await page.screenshot()));
});

const job = jobOf(64);

// The view ends with a table of ranks, whose beginning suffices.
test('ranks', async ({ open }) => {
  const viewport = { width: 1280, height: 1100 };
  const page = await open(await servingRanks('recordings', dirname(job.folder)), { colorScheme: 'dark', viewport, draws: false });
  await page.locator('.heat-map canvas').waitFor();
  await page.waitForLoadState('networkidle');
  writeFileSync(join(folder, 'ranks.png'), smaller(await page.screenshot()));
});
