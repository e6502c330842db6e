// A trace of torch.profiler beside a recording: its lanes, the memory of an operator, and the operators at a block.

import { readFileSync, renameSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { axe, violations } from './axe';
import { example, writePage } from './command';
import { drop } from './dropping';
import { drawn, fileNames, numberOf, plotBox, serving, servingAlone, state, test, type Open } from './page';
import { TRANSPORT } from './transport';
import { BASE, write } from './recordings';
import { saved } from './saving';
import { tab, user } from './user';

const RECORDING = example('operators.pickle.zst');
const TRACE = example('operators.json.gz');

interface TraceEvent {
  ph: string;
  cat?: string;
  name: string;
  ts: number;
  dur?: number;
  tid: number | string;
  args?: Record<string, unknown>;
}

const events: TraceEvent[] = JSON.parse(gunzipSync(readFileSync(TRACE)).toString()).traceEvents;

const LAUNCHING = 'aten::linear';

/** The trace with kernels and a collective call, which a phantom GPU does not run. */
function withKernels(): Buffer {
  const trace = JSON.parse(gunzipSync(readFileSync(TRACE)).toString());
  const forward = events.find(({ name }) => name === 'forward')!;
  const kernel = (name: string, stream: number, part: number, ids: object = {}) => ({
    ph: 'X',
    cat: 'kernel',
    name,
    pid: 0,
    tid: stream,
    ts: forward.ts,
    dur: forward.dur! * part,
    args: { device: 0, stream, ...ids },
  });
  // The first operator of the forward pass launches the first kernel.
  const { ts, tid, args } = events.find(({ name, cat }) => name === LAUNCHING && cat === 'cpu_op')!;
  const ids = { correlation: 77, 'External id': args!['External id'] };
  const call = { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 0, tid, ts: ts + 1, dur: 0.5, args: ids };
  trace.traceEvents.push(call, kernel('sm90_gemm', 7, 1, ids), kernel('ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)', 20, 0.5));
  return gzipSync(JSON.stringify(trace));
}

const lanes = (page: Page) => page.locator('.operators');
const chosen = (page: Page) => page.getByRole('region', { name: 'Chosen operator' });

/** Opens the recording, drops the trace, and waits for its lanes. */
async function dropped(page: Page, trace: Parameters<typeof drop>[1] = TRACE): Promise<void> {
  await drop(page, trace);
  await expect.poll(() => numberOf(page, '.operators', 'data-spans')).toBeGreaterThan(20);
}

/** Returns the exact bytes and blocks that a run of an operator allocated on the GPU, on its thread. */
function allocatedIn({ ts, dur, tid }: TraceEvent): { bytes: number; count: number } {
  const own = events.filter(
    (e) =>
      e.name === '[memory]' &&
      e.tid === tid &&
      e.ts >= ts &&
      e.ts <= ts + dur! &&
      e.args!['Device Type'] === 1 &&
      Number(e.args!['Bytes']) > 0,
  );
  return { bytes: own.reduce((sum, e) => sum + Number(e.args!['Bytes']), 0), count: own.length };
}

test('a dropped trace shows its lanes, and says how the clocks were aligned', async ({ open }) => {
  const page = await open(`${await servingAlone(RECORDING)}#view=moment`);
  await dropped(page, { name: 'trace.json.gz', bytes: withKernels() });
  await expect.poll(async () => (await state(page))['view']).toBe('timeline');
  // No recording was opened.
  expect(await fileNames(page)).toEqual(['operators.pickle.zst']);
  await expect.poll(() => lanes(page).textContent()).toContain('Aligned by the clock of both files: 70 of 70 allocations');
  const labels = await lanes(page).locator('.operators-lane').allTextContents();
  expect(labels.map((label) => label.replace(/[▸▾]/, '').trim())).toEqual([
    'annotations',
    'operators',
    'autograd_0',
    'stream 7',
    'NCCL',
  ]);
  const toggle = page.getByRole('button', { name: 'Operators', exact: true });
  await toggle.click();
  await expect.poll(() => lanes(page).count()).toBe(0);
  await toggle.click();
  await expect.poll(() => lanes(page).count()).toBe(1);
});

test('a page without files takes the recording, and then the trace', async ({ open }) => {
  const page = await open(`${await servingAlone()}#view=timeline`, { draws: false });
  await drop(page, RECORDING);
  await drawn(page);
  await dropped(page);
  expect(await fileNames(page)).toEqual(['operators.pickle.zst']);
});

test('an operator tells what it allocated', async ({ open }) => {
  const dark = { colorScheme: 'dark', before: axe } as const;
  const page = await open(`${await servingAlone(RECORDING)}#view=timeline&axis=time`, dark);
  await dropped(page);
  const box = lanes(page).locator('.operators-box');
  await box.focus();
  // The first span is the first annotation: the forward pass.
  await page.keyboard.press('ArrowRight');
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('forward');
  const forward = events.find(({ name, cat }) => name === 'forward' && cat === 'user_annotation')!;
  const { bytes, count } = allocatedIn(forward);
  expect(count).toBeGreaterThan(3);
  expect(await numberOf(page, '.operator-details', 'data-allocated')).toBe(bytes);
  expect(await chosen(page).textContent()).toContain(`in ${count} blocks`);
  expect(await violations(page)).toEqual([]);
  // It is the interval, too, whose allocations the panel lists.
  await expect.poll(async () => page.locator(`section[data-span="${(await state(page))['span'] ?? 'none'}"]`).count()).toBe(1);
  const before = (await state(page))['range'];
  await page.keyboard.press('Enter');
  await expect.poll(async () => (await state(page))['range']).not.toBe(before);
  // The address keeps it. A page without a server forgets dropped files when it is reloaded.
  if (TRANSPORT === 'server') await page.reload();
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('forward');
  await page.keyboard.press('Escape');
  await expect.poll(() => chosen(page).count()).toBe(0);
  await expect.poll(async () => (await state(page))['span']).toBeUndefined();
});

test('what the forward pass allocated, and the operators at its largest block: three steps', async ({ open }) => {
  const { page, step } = await user(open, 3, await serving('--operators', TRACE, RECORDING));
  await step(tab(page, 'Timeline'));
  await expect.poll(() => numberOf(page, '.operators', 'data-spans')).toBeGreaterThan(20);
  const [plot, box] = [await plotBox(page), (await lanes(page).locator('.operators-box').boundingBox())!];
  // The first annotation of the first profiled step.
  await step(page.mouse.click(plot.x + 0.31 * plot.width, box.y + 6));
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('forward');
  const forward = events.find(({ name, cat }) => name === 'forward' && cat === 'user_annotation')!;
  expect(await numberOf(page, '.operator-details', 'data-allocated')).toBe(allocatedIn(forward).bytes);
  await step(chosen(page).getByRole('button', { name: 'Select the largest block' }).click());
  const flight = page.getByRole('region', { name: 'In flight when it was allocated' });
  await expect.poll(() => flight.locator('li button').allTextContents()).toEqual(['aten::empty', 'aten::randn', 'forward']);
});

/** A page whose selection is the largest block of the first operator, and the block's operators in flight. */
async function largestBlock(open: Open): Promise<{ page: Page; flight: Locator }> {
  const page = await open(`${await servingAlone(RECORDING)}#view=timeline&axis=time`, { before: axe });
  await dropped(page, { name: 'trace.json.gz', bytes: withKernels() });
  await lanes(page).locator('.operators-box').focus();
  await page.keyboard.press('ArrowRight');
  await chosen(page).getByRole('button', { name: 'Select the largest block' }).click();
  const flight = page.getByRole('region', { name: 'In flight when it was allocated' });
  return { page, flight };
}

test('a block tells the operators in flight when it was allocated', async ({ open }) => {
  const { page, flight } = await largestBlock(open);
  const names = () => flight.locator('li button').allTextContents();
  await expect.poll(names).toContain('forward');
  await expect.poll(names).toContain('sm90_gemm');
  expect(await violations(page)).toEqual([]);
  const all = await names();
  const operators = all.filter((name) => name.startsWith('aten::'));
  expect(operators.length).toBeGreaterThan(1);
  // Innermost first: each is chosen, and the next one is around it.
  await flight.getByRole('button', { name: operators[0]!, exact: true }).first().click();
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe(operators[0]);
  expect(await chosen(page).locator('ol button').allTextContents()).toEqual(operators.slice(1).map((name) => `in ${name}`));
});

test('a kernel tells the operator that launched it, and the operator its kernels', async ({ open }) => {
  const { page, flight } = await largestBlock(open);
  await flight.getByRole('button', { name: 'sm90_gemm' }).click();
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('sm90_gemm');
  const kernels = page.getByRole('region', { name: 'Kernels that it launched' });
  expect(await kernels.count()).toBe(0);
  expect(await chosen(page).textContent()).toContain('with cudaLaunchKernel');
  expect(await violations(page)).toEqual([]);
  await chosen(page)
    .getByRole('button', { name: `launched by ${LAUNCHING}` })
    .click();
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe(LAUNCHING);
  const forward = events.find(({ name }) => name === 'forward')!;
  await expect.poll(() => kernels.textContent()).toContain('It launched 1 kernel');
  expect(Number(await kernels.getAttribute('data-took-us'))).toBeCloseTo(forward.dur!, 2);
  expect(await violations(page)).toEqual([]);
  await kernels.getByRole('button', { name: 'sm90_gemm' }).click();
  await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('sm90_gemm');
});

test('a lane unfolds, and the pointer names its spans', async ({ open }) => {
  const page = await open(`${await servingAlone(RECORDING)}#view=timeline&axis=time`);
  await dropped(page);
  const label = lanes(page).getByRole('button', { name: /operators$/ });
  expect(await label.getAttribute('aria-expanded')).toBe('false');
  const height = () =>
    lanes(page)
      .locator('.operators-space')
      .evaluate((e) => e.clientHeight);
  const folded = await height();
  await label.click();
  await expect.poll(height).toBeGreaterThan(folded);
  const box = (await lanes(page).locator('.operators-box').boundingBox())!;
  const tip = page.locator('.part-tooltip');
  for (let x = 100; x < box.width - 30 && (await tip.count()) === 0; x += 20) await page.mouse.move(box.x + x, box.y + 6);
  expect(await tip.textContent()).toMatch(/forward|backward|optimizer|ProfilerStep/);
});

test('a trace of another run is refused with the reason, and opens as a recording of its own', async ({ open }) => {
  const page = await open(await servingAlone(example('leak.pickle')), { expected: /status of 422/ });
  await drop(page, TRACE);
  await expect.poll(() => page.getByRole('alert').textContent()).toContain('the trace is of another run');
  await expect.poll(() => fileNames(page)).toEqual(['leak.pickle', 'operators.json.gz']);
  await expect.poll(() => lanes(page).count()).toBe(0);
});

/** Three equal steps of twelve allocations, without times, and their trace. */
function repeating(): { recording: string; trace: Buffer } {
  const memory = Array.from({ length: 36 }, (_, i) => ({ addr: BASE + (i % 12) * 2 ** 30, size: ((i % 12) + 1) * 2 ** 20 }));
  const recorded = memory.flatMap((one) =>
    ['alloc', 'free_requested', 'free_completed'].map((action) => ({ action, stream: 0, frames: [], ...one })),
  );
  const shared = { pid: 0, tid: 1 };
  const traced = memory.map(({ addr, size }, i) => {
    const args = { Addr: addr, Bytes: size, 'Device Type': 1, 'Device Id': 0 };
    return { ph: 'i', cat: 'cpu_instant_event', name: '[memory]', ts: 10 * i, s: 't', args, ...shared };
  });
  const operator = { ph: 'X', cat: 'cpu_op', name: 'aten::empty', ts: 0, dur: 360, args: {}, ...shared };
  return {
    recording: write('repeating.json', { segments: [], device_traces: [recorded] }),
    trace: gzipSync(JSON.stringify({ schemaVersion: 1, traceEvents: [operator, ...traced] })),
  };
}

test('the page says that a trace also fits at other repetitions of a step', async ({ open }) => {
  const { recording, trace } = repeating();
  const page = await open(`${await servingAlone(recording)}#view=timeline`);
  await drop(page, { name: 'trace.json.gz', bytes: trace });
  await expect.poll(() => lanes(page).textContent()).toContain('Aligned by the order of allocations');
  await expect
    .poll(() => lanes(page).textContent())
    .toContain('Uncertain: the program repeats itself, and the trace also fits 2 other places in part.');
});

/** The spans and the sentence of a page's lanes, once they are drawn. */
async function shownLanes(page: Page): Promise<{ spans: number; told: string | null }> {
  await expect.poll(() => numberOf(page, '.operators', 'data-spans')).toBeGreaterThan(20);
  return {
    spans: await numberOf(page, '.operators', 'data-spans'),
    told: await lanes(page).locator('.operators-told').textContent(),
  };
}

test.skipIf(TRANSPORT === 'server')(
  'a self-contained page carries the trace, and shows what a dropped one shows',
  async ({ open }) => {
    const view = '#view=timeline&axis=time';
    const carried = pathToFileURL(writePage('--operators', TRACE, example('leak.pickle'), RECORDING)).href;
    const page = await open(`${carried}${view}&file=1`);
    const shown = await shownLanes(page);
    expect(shown.told).toContain('Aligned by the clock of both files: 70 of 70 allocations');
    await lanes(page).locator('.operators-box').focus();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => chosen(page).locator('h2').textContent()).toBe('forward');
    const forward = events.find(({ name, cat }) => name === 'forward' && cat === 'user_annotation')!;
    expect(await numberOf(page, '.operator-details', 'data-allocated')).toBe(allocatedIn(forward).bytes);
    // The other file has none.
    const other = await open(`${carried}${view}&file=0`);
    await expect.poll(() => lanes(other).count()).toBe(0);

    const plain = await open(`${await servingAlone(RECORDING)}${view}`);
    await dropped(plain);
    expect(await shownLanes(plain)).toEqual(shown);
    // A page that is saved has the trace, too: with the engine under test, and from the saved page.
    await plain.keyboard.press('c');
    await plain.getByRole('region', { name: 'Notes' }).getByRole('textbox').waitFor();
    await plain.keyboard.insertText('a note');
    await plain.keyboard.press('Enter');
    const { path } = await saved(plain, () => plain.getByRole('button', { name: 'Save page with notes' }).click());
    const html = `${path}.html`;
    renameSync(path, html);
    const again = await open(`${pathToFileURL(html).href}${view}`);
    expect(await shownLanes(again)).toEqual(shown);
  },
);
