// Live memory at a moment matches the command, by every grouping; so do the differences of two recordings.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { groupsOf } from '../src/parts/holders';
import { CATEGORIES, NONE, type By } from '../src/source/source';
import { GROUPS } from '../src/state/grouping';
import { asking, frames } from './asking';
import { data, diff, example, report, serve, tagged, type Served } from './command';
import { skipping } from './skipping';

const LARGER = [
  'phantom/streams-torch2.11-default.pickle',
  'phantom/mempool-torch2.11-default.pickle',
  'phantom/two_gpus-torch2.11-default.pickle',
  'phantom/mlp-torch2.11-default-late.pickle',
  'categories/gpt2-adamw-late.pickle.zst',
  'real/verl-three-pools-pending-free.pickle',
];

const running: Served[] = [];
afterAll(() => running.forEach((served) => served.stop()));

async function source(...files: string[]) {
  const served = await serve(...files);
  running.push(served);
  return asking(served.url);
}

/** Converts a table's label to the command's key for the group. */
function told(by: By, key: string, label: string): boolean {
  const name = label.replace(/^\(live before recording(, freed at)?\) /, '');
  if (by === 'function') return key === name || key === name.replace(/ \((?:.*\/)?([^/]*)\)$/, ' ($1)');
  if (by === 'stack') return name.split(' ‹ ').includes(key);
  // A file's path starts at the common directory of the user's files.
  if (by === 'file') return key.endsWith(name);
  return name === (by === 'category' ? key.replaceAll('_', ' ') : key);
}

async function isThatOfTheCommand(file: string): Promise<void> {
  const asked = await source(file);
  const [recording] = await asked.recordings();
  const names = await asked.names(0);
  for (const [d, device] of recording!.devices.entries()) {
    const peak = device.peaks.allocated.moment;
    for (const moment of new Set([1, Math.ceil(device.events / 3), peak, device.events])) {
      if (moment === 0 || moment > device.events) continue;
      for (const by of GROUPS) {
        const query = {
          moment,
          by,
          calls: 'own' as const,
          inverted: false,
          before: null,
          search: null,
          only_found: false,
          zoom: [],
          transforms: [],
        };
        const { holders: held, calls, categories } = await asked.ask(0, d, { question: 'live', ...query });
        const told_at = report(file, '--by', by, '--at', String(moment - 1)).devices[d].at;
        expect(held.now.counters.allocated).toBe(told_at.allocated_bytes);
        const groups = groupsOf(held);
        const plain = (g: (typeof groups)[number]) => [g.bytes, g.requested, g.count];
        expect(groups.map(plain)).toEqual(told_at.holders.map((h: any) => [h.bytes, h.requested_bytes, h.count]));
        for (const [i, { label, stack }] of groups.entries()) {
          const { key, stack: whole, freed_at: freed = [] } = told_at.holders[i];
          expect([label, told(by, key, label)]).toEqual([label, true]);
          const shown = [...whole, ...freed].map((f: any) => `${f.filename}:${f.line} ${f.name}`);
          if (shown.length > 0) expect(frames(names, stack).slice(0, shown.length)).toEqual(shown);
        }
        const outermost = calls.bytes.filter((_, i) => calls.parent[i] === NONE).reduce((sum, n) => sum + n, 0);
        expect(outermost).toBe(told_at.allocated_bytes);
        if (by !== 'category') continue;
        const bytes = new Map(told_at.holders.map((h: any) => [h.key, h.bytes]));
        expect(categories).toEqual(CATEGORIES.map((category) => bytes.get(category) ?? 0));
      }
    }
  }
}

describe.each(['training.pickle.zst', 'leak.pickle', 'oom.pickle'])('%s', (name) => {
  test('groups match the command', { timeout: 120_000 }, () => isThatOfTheCommand(example(name)));
});

describe.each(LARGER)('%s', (name) => {
  test('groups match the command', { timeout: 180_000 }, async ({ skip }) => {
    const file = join(data ?? '', name);
    if (!data || !existsSync(file)) skipping('recordings', `groups of ${name}`, skip);
    await isThatOfTheCommand(file);
  });
});

test('differences of two recordings match the command by line', { timeout: 60_000 }, async () => {
  const [base, batch] = [tagged('base'), tagged('batch')];
  const asked = await source(base, batch);
  const [a, b] = (await asked.recordings()).map((of) => of!.devices[0]!.peaks.allocated.moment);
  const query = {
    moment: a!,
    by: 'line' as const,
    search: null,
    other_file: 1,
    other_device: 0,
    other_moment: b!,
    other_search: null,
  };
  const groups = groupsOf(await asked.ask(0, 0, { question: 'holders_of_both', ...query }));
  const row = (name: string, bytes: number[], count: number[]) => JSON.stringify([name, bytes, count]);
  const lines = diff(base, batch).devices[0].lines.filter((line: any) => line.bytes.a > 0 || line.bytes.b > 0);
  expect(groups.map((g) => row(g.label, [g.before, g.bytes], [g.countBefore, g.count])).sort()).toEqual(
    lines.map((l: any) => row(l.key, [l.bytes.a, l.bytes.b], [l.count.a, l.count.b])).sort(),
  );
  expect(groups.length).toBeGreaterThan(5);
});
