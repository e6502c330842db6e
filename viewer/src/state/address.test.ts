import { beforeEach, expect, test, vi } from 'vitest';
import type { Source } from '../source/questions';
import type { Device, Recording } from '../source/source';

const device = {
  device: 0,
  events: 100,
  allocations: 10,
  origin_us: null,
  duration_us: null,
  peaks: { allocated: { bytes: 8, moment: 7 } },
  markers: [] as Device['markers'],
} as Device;
const recordings = [{ devices: [device, device] }, { devices: [device] }] as Recording[];
const source = (over: Partial<Source> = {}) => ({ recordings: async () => recordings, ...over }) as Source;

/** Opens a page at an address. */
async function page(hash: string, of = source()) {
  vi.resetModules();
  const listeners: (() => void)[] = [];
  const entries = [hash];
  const go = (to: string) => (location.hash = entries[entries.length - 1] = to);
  const location = { hash };
  vi.stubGlobal('window', { addEventListener: (_: string, listener: () => void) => listeners.push(listener) });
  vi.stubGlobal('location', location);
  vi.stubGlobal('history', {
    replaceState: (_: unknown, __: string, to: string) => go(to),
    pushState: (_: unknown, __: string, to: string) => {
      entries.push('');
      go(to);
    },
  });
  const state = {
    ...(await import('./address')),
    ...(await import('./compared')),
    ...(await import('./moment')),
    ...(await import('./choice')),
    ...(await import('./place')),
    ...(await import('./recordings')),
    ...(await import('./replay')),
    ...(await import('./search')),
    ...(await import('./selection')),
    ...(await import('./trouble')),
    ...(await import('./window')),
  };
  await state.start(of);
  const back = () => {
    entries.pop();
    location.hash = entries.at(-1)!;
    listeners.forEach((listener) => listener());
  };
  return { state, entries, back };
}

beforeEach(() => void vi.useFakeTimers());

test.each([
  ['range=50~5000', [0, 101], null],
  ['range=90~140', [51, 101], [51, 101]],
  ['range=5000~6000', [0, 101], null],
  ['range=10~20&axis=time', [0, 101], null],
  ['range=10~20', [10, 20], [10, 20]],
])('%s', async (hash, shown, range) => {
  const { state } = await page(`#${hash}`);
  expect([state.shownRange.value, state.range.value, state.axis.value]).toEqual([shown, range, 'events']);
});

test('values that a recording lacks are not requested', async () => {
  const { state } = await page('#file=0.5&device=9&moment=1.5&against=999&selected=3.5&setting=1.9&othermoment=4.5');
  const { file, device, moment, against, selected, setting, otherMoment } = state;
  const now = { file, device, moment, against, selected, setting, otherMoment };
  expect(Object.fromEntries(Object.entries(now).map(([name, of]) => [name, of.value]))).toEqual({
    // No value of another device is kept.
    file: 0,
    device: 0,
    moment: null,
    against: null,
    selected: null,
    setting: null,
    otherMoment: null,
  });
  const there = (await page('#file=0.5&moment=1.5&against=999&selected=3.5&othermoment=4.5')).state;
  expect([there.file, there.moment, there.against, there.selected, there.otherMoment].map((of) => of.value)).toEqual([
    0, 1, 100, 3, 4,
  ]);
});

test('Back leads through views, files and devices, each as it was left', async () => {
  const { state, entries, back } = await page('');
  state.moment.value = 5;
  vi.runAllTimers();
  state.moment.value = 6;
  state.view.value = 'state';
  vi.runAllTimers();
  state.withReserved.value = false;
  vi.runAllTimers();
  state.choose(0, 1);
  vi.runAllTimers();
  expect(entries).toEqual(['#moment=6', '#view=state&moment=6&fit=stack', '#view=state&device=1&fit=stack']);
  back();
  vi.runAllTimers();
  expect([state.device.value, state.view.value, state.withReserved.value]).toEqual([0, 'state', false]);
  back();
  vi.runAllTimers();
  expect([state.view.value, state.moment.value, state.withReserved.value]).toEqual(['overview', 6, true]);
  expect(entries).toEqual(['#moment=6']);
});

test('an address without a valid recording is corrected', async () => {
  const { entries } = await page('#view=state&file=9');
  vi.runAllTimers();
  expect(entries).toEqual(['#view=state']);
});

test('failed names are requested again', async () => {
  const names = vi.fn().mockRejectedValueOnce(new Error('gone')).mockResolvedValue({ label: [] });
  const { state } = await page('', source({ names }));
  await expect(state.needNames(0)).rejects.toThrow('gone');
  await state.needNames(0);
  await state.needNames(0);
  expect(names).toHaveBeenCalledTimes(2);
  expect(state.currentNames.value).toEqual({ label: [] });
});

test('the address is followed even if recordings could not be read', async () => {
  const { state, entries } = await page('', source({ recordings: () => Promise.reject(new Error('gone')) }));
  expect(state.trouble.value).toBe('gone');
  state.search.value = 'x';
  vi.runAllTimers();
  expect(entries).toEqual(['#search=x']);
});
