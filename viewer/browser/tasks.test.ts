// Typical user questions, and the steps that each takes: a click, a choice, a typed line. The answers are compared with the command.
// Tests of transforms, source files, changes to the program and SQL count the steps of their tasks in the same way.

import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect } from 'vitest';
import { bytes, share } from '../src/text/units';
import { data, diff, example, replay, report, tagged } from './command';
import { bytesOfGroups, exact, numberOf, panel, plotBox, ready, redrawn, serving, state, tableRows, test } from './page';
import { BASE, IN_GRAPH_POOL, frame, log, pooled, training, write, type Entry, type Frame } from './recordings';
import { tab, user } from './user';

const [OOM, LEAK, TRAINING] = [example('oom.pickle'), example('leak.pickle'), example('training.pickle.zst')];

const [MIB, GIB] = [1 << 20, 2 ** 30];

test('the line that held most at the peak: one step', async ({ open }) => {
  const { page, step } = await user(open, 1, await serving(TRAINING));
  await step(tab(page, 'Moment'));
  await page.locator('.moment-view:not([aria-busy="true"])').waitFor();
  const [first] = await tableRows(page, 'Allocated by line');
  const [holder] = report(TRAINING, '--by', 'line').devices[0].holders_at_peak;
  expect([first![0], exact(first![1]!)]).toEqual([holder.key, holder.bytes]);
});

test('the reason for an out of memory: no step', async ({ open }) => {
  const { page } = await user(open, 0, await serving(OOM));
  const [oom] = report(OOM).devices[0].ooms;
  const card = page
    .getByRole('region', { name: /^Out of memory/ })
    .or(page.locator('.card', { hasText: 'Out of memory' }))
    .first();
  await card.getByText(bytes(oom.requested_bytes)).first().waitFor();
  const told = (await card.textContent())!;
  for (const amount of [oom.allocated_bytes, oom.reserved_bytes, oom.device_free_bytes]) expect(told).toContain(bytes(amount));
  expect(told).toMatch(/fragmentation|size|limit/);
});

test("the allocations of step 2's backward pass: two steps", async ({ open }) => {
  const { page, step } = await user(open, 2, await serving(TRAINING));
  await step(tab(page, 'Timeline'));
  const box = await plotBox(page);
  await step(page.mouse.click(box.x + (3300 / 5253) * box.width, box.y - 56));
  const told = page.locator('aside.details [data-span][aria-busy="false"]');
  await told.getByRole('heading', { name: /^backward of step 2: .* allocated/ }).waitFor();
  const [from, to] = (await told.getAttribute('data-span'))!.split('.').map(Number);
  const [device] = report(TRAINING, '--at', `${from}..${to! - 1}`).devices;
  await expect.poll(() => told.textContent()).toContain(bytes(device.allocated.bytes));
});

test("the allocations of step 2's backward pass, without annotations: two steps, or one", async ({ open }) => {
  const file = training(4);
  const [device] = report(file, '--at', 'backward:2').devices;
  expect(device.name).toBe('backward of step 2 (inferred)');
  const { page, step } = await user(open, 2, await serving(file));
  const { phases } = report(file).devices[0];
  const [{ first_event: from, end_event: to }] = phases.filter((p: any) => p.phase === 'backward' && p.step === 2);
  await step(tab(page, 'Timeline'));
  const box = await plotBox(page);
  const events = report(file).devices[0].events;
  await step(page.mouse.click(box.x + ((from + to + 2) / 2 / (events + 1)) * box.width, box.y - 23));
  const told = page.locator('aside.details [data-span][aria-busy="false"]');
  await told.getByRole('heading', { name: /^backward of step 2 \(inferred\): .* allocated/ }).waitFor();
  await expect.poll(() => told.getAttribute('data-span')).toBe(`${from}.${to}`);
  await expect.poll(() => told.textContent()).toContain(bytes(device.allocated.bytes));
  // With any number of steps, a search answers it in one.
  const other = await user(open, 1, await serving(file));
  await other.step(other.page.getByRole('searchbox').fill('phase:backward step:2'));
  await other.page.locator(`#search-result [data-matches="${device.allocated.count}"]`).waitFor();
  await expect.poll(() => numberOf(other.page, '#search-result [data-matches]', 'data-bytes')).toBe(device.allocated.bytes);
});

/** Training recordings: our own, and the larger ones beside the checkout. */
const TRAININGS = [
  TRAINING,
  example('operators.pickle.zst'),
  tagged('base'),
  training(3),
  ...['gpt2-adamw-python', 'gpt2-adamw-late', 'lora-adam', 'mlp-adam', 'mlp-amp', 'mlp-sgd-python-keepgrads', 'resnet50-sgd'].map(
    (name) => join(data ?? '', 'categories', `${name}.pickle.zst`),
  ),
  ...['mlp', 'gpt2', 'resnet50'].map((name) => join(data ?? '', 'phantom', `${name}-torch2.11-default.pickle`)),
];

test.for(TRAININGS.filter(existsSync).map((file) => ({ name: basename(file), file })))(
  "the allocations of step 2's backward pass: one step: $name",
  async ({ file }, { open }) => {
    const { phases } = report(file).devices[0];
    // Without visible optimizer steps, a step may have several backward passes.
    const passes = phases.filter((p: any) => p.phase === 'backward' && p.step === 2);
    const sum = (of: string) => passes.reduce((all: number, one: any) => all + one[of], 0);
    expect(sum('allocations')).toBeGreaterThan(0);
    const { page, step } = await user(open, 1, await serving(file));
    await step(page.getByRole('searchbox').fill('phase:backward step:2'));
    await page.locator(`#search-result [data-matches="${sum('allocations')}"]`).waitFor();
    await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-bytes')).toBe(sum('allocated_bytes'));
  },
);

test('the stack of a block of 512 MiB: two steps', async ({ open }) => {
  const frames = [{ name: 'grow', filename: '/home/user/cache.py', line: 17 }];
  const event = (addr: number, mib: number, more: object = {}) => ({ addr, size: mib << 20, stream: 0, frames: [], ...more });
  const [small, large] = [event(0x7f0000000000, 20), event(0x7f1000000000, 512, { frames })];
  const trace = [small, large, event(0x7f2000000000, 30)].flatMap((one) => [
    { action: 'segment_alloc', ...one },
    { action: 'alloc', ...one },
  ]);
  const { page, step } = await user(open, 2, await serving(write('large.json', { segments: [], device_traces: [trace] })));
  await step(page.getByRole('searchbox').fill('512MiB'));
  await step(page.getByRole('searchbox').press('Enter'));
  await page.locator('[data-selected]').first().waitFor();
  await page.getByText('cache.py').first().waitFor();
});

test('the memory of another library in a log, and the idle memory: one step', async ({ open }) => {
  const { page, step } = await user(open, 1, await serving(log));
  const [device] = report(log).devices;
  const [library] = device.libraries;
  const row = page.getByRole('row', { name: new RegExp(library.library) });
  await expect.poll(() => row.textContent()).toContain(bytes(library.bytes));
  // The line of the program, not the innermost frame.
  await expect.poll(() => row.textContent()).toContain('train.py:5 make_model');
  const [idle] = device.idle.findings;
  const card = page.locator('.card', { hasText: 'Idle memory' });
  await expect.poll(() => card.locator('li').first().textContent()).toContain(bytes(idle.bytes));
  await step(card.getByRole('button').first().click());
  await expect.poll(() => page.getByRole('searchbox').inputValue()).toBe('idle:1');
});

test('the variables that keep a tensor alive: one step', async ({ open }) => {
  const chains = ['main (train.py:12): history[17].loss', "__main__.Cache.entries['x']"];
  const lines = ['vramscope-tensor:dtype=float32;shape=(8, 262144)', ...chains.map((chain) => `vramscope-referrer:${chain}`)];
  const event = { action: 'alloc', addr: 0x7f0000000000, size: 8 << 20, stream: 0, user_metadata: lines.join('\n') };
  const file = write('kept.json', { segments: [], device_traces: [[event]] });
  const { page, step } = await user(open, 1, await serving(file));
  expect(report(file).devices[0].referred_tensors[0].referrers).toEqual(chains);
  const card = page.locator('.card', { hasText: 'References at the snapshot' });
  await expect.poll(() => card.locator('.referrers li').allTextContents()).toEqual(chains);
  await step(card.getByRole('button').first().click());
  const details = page.getByRole('region', { name: 'Selected allocation' });
  for (const chain of chains) await details.getByText(chain).waitFor();
  await expect.poll(() => details.textContent()).toContain('float32 (8, 262144)');
});

test('the hole at the out of memory: one step', async ({ open }) => {
  const { page, step } = await user(open, 1, await serving(OOM));
  await step(page.getByRole('button', { name: 'Show the request beside the holes' }).click());
  await page.locator('.to-scale [data-kind="hole"]').waitFor();
  const [oom] = report(OOM).devices[0].ooms;
  const [tooSmall] = oom.unusable.filter(({ why }: { why: string }) => why === 'too_small');
  await expect.poll(() => numberOf(page, '.to-scale [data-kind="hole"]', 'data-bytes')).toBe(tooSmall.largest_bytes);
});

test('the contents of a private pool, by line: two steps', async ({ open }) => {
  const { page, step } = await user(open, 2, await serving(pooled()));
  await step(tab(page, 'State'));
  await step(
    page
      .getByRole('list', { name: 'Pools' })
      .getByRole('button', { name: /private pool \(1, 0\)/ })
      .click(),
  );
  await expect.poll(() => bytesOfGroups(page, 'Allocated in private pool (1, 0) by line')).toEqual(IN_GRAPH_POOL);
});

test('growth between two runs: one step', async ({ open }) => {
  const runs = [tagged('base'), tagged('batch')] as const;
  const { page, step } = await user(open, 1, await serving(...runs));
  await step(tab(page, 'Compare'));
  await page.locator('.growth[data-way="highest"]').waitFor();
  const [first] = await tableRows(page, 'Peak of each line');
  const [grown] = diff(...runs).devices[0].highest_lines;
  expect([first![0], exact(first![1]!)]).toEqual([grown.key, grown.difference_bytes]);
});

test('the share of activations at the peak: no step', async ({ open }) => {
  const { page } = await user(open, 0, await serving(TRAINING));
  const row = page.locator('.overview tr[data-category="activation"]');
  await row.waitFor();
  const { categories_at_peak: all, peak_allocated_bytes: peak } = report(TRAINING).devices[0];
  const { bytes: held } = all.find(({ category }: { category: string }) => category === 'activation');
  await expect.poll(() => row.textContent()).toContain(share(held, peak));
});

test('the smallest GPU that fits: two steps', { timeout: 60_000 }, async ({ open }) => {
  const { page, step } = await user(open, 2, await serving(OOM));
  await step(tab(page, 'What-if'));
  await step(page.getByRole('button', { name: 'Find the smallest GPU' }).click({ timeout: 30_000 }));
  const answer = page.locator('[data-gpu]');
  await answer.waitFor({ timeout: 60_000 });
  await expect.poll(() => answer.getAttribute('data-gpu')).toBe(replay(OOM, '--find-capacity').devices[0].smallest_gpu.name);
});

test('the leaking blocks: one step', async ({ open }) => {
  const { page, step } = await user(open, 1, await serving(LEAK));
  const [leak] = report(LEAK).devices[0].leaks;
  await step(page.locator('.finding-rows').getByRole('button', { name: leak.line.name }).click());
  await expect.poll(async () => (await state(page))['search']).toBeDefined();
  await page.locator(`[data-matches="${leak.kept}"]`).waitFor();
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-bytes')).toBe(leak.kept_bytes);
});

/** Blocks in MiB, each with its line and the milliseconds of its allocation and its free. */
const LIVED: [mib: number, line: number, from: number, to: number][] = [
  [128, 1, 0, 300],
  [200, 2, 10, 160],
  [50, 3, 20, 220],
  [200, 4, 30, 80],
  [300, 5, 40, 130],
];

test('only the allocations over 100 MiB that lived longer than 100 ms, everywhere: three steps', async ({ open }) => {
  const events = LIVED.flatMap(([mib, line, from, to], i) => {
    const event = { addr: BASE + i * 2 ** 30, size: mib * MIB, stream: 0, frames: [frame('main', '/home/user/train.py', line)] };
    const at = (action: string, ms: number) => ({ action, ...event, time_us: 1_700_000_000_000_000 + ms * 1000 });
    return [at('segment_alloc', from), at('alloc', from), at('free_requested', to), at('free_completed', to)];
  });
  const trace = events.sort((a, b) => a.time_us - b.time_us);
  const { page, step } = await user(open, 3, await serving(write('lived.json', { segments: [], device_traces: [trace] })));
  const box = page.getByRole('searchbox');
  await step(box.click());
  await step(page.getByRole('note').getByRole('button', { name: 'lived:>100ms' }).click());
  await step(box.pressSequentially(' >100MiB'));
  await expect.poll(() => box.inputValue()).toBe('lived:>100ms >100MiB');
  await page.locator('#search-result [data-matches="2"]').waitFor();
  await expect.poll(() => numberOf(page, '#search-result [data-matches]', 'data-bytes')).toBe(328 * MIB);
  // The overview, the tables and the sums of the other views have these two alone.
  await tab(page, 'Moment');
  await expect.poll(() => numberOf(page, '.moment-view', 'data-found')).toBe(328 * MIB);
  await expect
    .poll(() => bytesOfGroups(page, 'Allocated by line'))
    .toEqual(new Map([200, 128].map((mib, i) => [`train.py:${2 - i} main`, mib * MIB])));
  await tab(page, 'Allocations');
  await ready(page, 'allocations');
  await expect.poll(() => panel(page).textContent()).toMatch(/2 .*328\.00 MiB/);
});

/** A stack in a module that line 9 of the model calls. */
const inModule = (line: number): Frame[] => {
  const call = ['_call_impl', '_wrapped_call_impl'].map((name) =>
    frame(name, '/env/site-packages/torch/nn/modules/module.py', 1),
  );
  return [
    frame('forward', '/home/user/block.py', line),
    ...call,
    frame('forward', '/home/user/model.py', 9),
    ...call,
    frame('main'),
  ];
};

/**
 * Training steps of three modules `h.0` to `h.2`, in GiB: a parameter of 4; in each step, each module saves 10 and its output of 2; then a
 * gradient of 4. After the first step, Adam has two states of 4.
 */
function modules(): string {
  const trace: Entry[] = [];
  let made = 0;
  const put = (action: string, address: number, gib: number, more: object) =>
    trace.push({ action, addr: BASE + address * 2 ** 40, size: gib * GIB, stream: 0, ...more });
  const alloc = (gib: number, frames: Frame[] = [], more: object = {}) => {
    made += 1;
    put('alloc', made, gib, { frames, ...more });
    return [made, gib] as const;
  };
  const free = ([address, gib]: readonly [number, number]) => put('free_completed', address, gib, { frames: [] });
  const adam = (name: string) => [name, 'step'].map((each) => frame(each, '/env/site-packages/torch/optim/adam.py', 1));
  alloc(4, [frame('_apply', '/env/site-packages/torch/nn/modules/module.py', 3), frame('main')]);
  for (let n = 0; n < 3; n += 1) {
    const saved = [0, 1, 2].flatMap((module) => {
      const user_metadata = `vramscope:category=activation;module=h.${module}.mlp;phase=forward`;
      return [alloc(10, inModule(5), { user_metadata }), alloc(2, inModule(6), { user_metadata })];
    });
    const gradient = alloc(4);
    saved.reverse().forEach(free);
    if (n === 0) for (let state = 0; state < 2; state += 1) alloc(4, [...adam('_init_group'), frame('main')]);
    free(alloc(4, [...adam('_multi_tensor_adam'), frame('main')]));
    free(gradient);
  }
  return write('modules.json', { segments: [], device_traces: [trace] });
}

test('the smallest GPU if the layers are checkpointed: five steps', async ({ open }) => {
  const { page, step } = await user(open, 5, await serving(modules()));
  await step(tab(page, 'What-if'));
  await step(page.getByText('Changes to the program', { exact: true }).click());
  const form = page.getByRole('form', { name: 'Change to the program' });
  await step(form.getByLabel('Change').selectOption('layer'));
  await step(form.getByLabel('Part').selectOption('layer:h.*'));
  await step(page.getByRole('button', { name: 'Add change' }).click());
  // The parameter, two states, the gradient, the outputs of two modules, and one module that ran again.
  const estimate = page.locator('.program-estimate');
  await expect.poll(() => numberOf(page, '.program-estimate', 'data-peak')).toBe((4 + 8 + 4 + 2 * 2 + 10) * GIB);
  // The smallest known GPUs with room for 52 GiB, and for 30 GiB, and a CUDA context.
  const gpus = estimate.getByRole('row', { name: /^Smallest GPU/ }).getByRole('cell');
  expect(await gpus.allTextContents()).toEqual(['h100-pcie (79.11 GiB)', 'rtx5090 (31.37 GiB)']);
});

test('the table of lines in the whole window, at 1280 x 720: one step', async ({ open }) => {
  const address = `${await serving(TRAINING)}#view=moment`;
  const { page, step } = await user(open, 1, address, { viewport: { width: 1280, height: 720 } });
  const table = page.locator('.moment-view .table-box');
  await table.waitFor();
  const height = async () => (await table.boundingBox())!.height;
  const timeline = (await page.locator('.timeline').boundingBox())!.height;
  const before = await height();
  await step(page.getByRole('button', { name: 'Collapse the timeline' }).click());
  await expect.poll(height).toBeGreaterThan(before + timeline / 2);
  await expect.poll(() => page.locator('.timeline-plot').isVisible()).toBe(false);
  // It stays collapsed.
  await page.reload();
  await table.waitFor();
  await expect.poll(height).toBeGreaterThan(before + timeline / 2);
});

test('the largest block at the peak and its stack, zoomed to, with keys alone: three steps', async ({ open }) => {
  const { page, step } = await user(open, 3, await serving(TRAINING));
  await step(page.keyboard.press('2'));
  await ready(page, 'timeline');
  await step(page.keyboard.press('PageUp'));
  const details = page.getByRole('region', { name: 'Selected allocation' });
  await details.getByRole('list').first().waitFor();
  const timeline = page.getByRole('slider', { name: /^Timeline/ });
  const [, spoken] = /selected: ([\d.]+ \w+)/.exec((await timeline.getAttribute('aria-valuetext'))!)!;
  await expect.poll(() => details.textContent()).toContain(spoken);
  await redrawn(page, () => step(page.keyboard.press('z')));
  await expect.poll(async () => (await state(page))['bytes']).toBeDefined();
});
