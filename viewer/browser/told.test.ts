// The page's answer types against the command's answers, checked by TypeScript.

import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { decode } from '../src/source/columns';
import { example, serve } from './command';
import { odd } from './odd';

const viewer = resolve(import.meta.dirname, '..');
const folder = join(viewer, 'node_modules', '.cache');
const written = join(folder, `told-${process.pid}.ts`);
afterAll(() => rmSync(written, { force: true }));

const WINDOW = {
  stacked: 'allocated',
  axis: 'events',
  from: 0,
  to: 9,
  width: 9,
  height: 9,
  low: 0,
  high: null,
  fit_reserved: false,
  only: null,
};
const NOTHING = { is: 'address', address: -1, version: null } as const;

/** The type of each answer; `Read` lets the types accept constants. */
const HEAD = `
import type { Allocation, Allocations, Found, Layout, Live, Meaning, Picture, Recording, Regions, Replay, Report, Segments } from '../../src/source/generated/questions';
type Read<T> = { readonly [K in keyof T]: Read<T[K]> };
`;

/** sources.test.ts checks columns by comparing the two sources' answers. */
const withoutColumns = (_: string, value: unknown) => (ArrayBuffer.isView(value) ? undefined : value);

test('every answer has the type that the page expects', { timeout: 120_000 }, async () => {
  const files = [example('oom.pickle'), example('leak.pickle'), example('training.pickle.zst'), ...Object.values(odd())];
  const served = await serve(...files);
  const lines = [HEAD];
  let number = 0;
  const is = (type: string, value: unknown) => {
    number += 1;
    lines.push(
      `const told${number} = ${JSON.stringify(value, withoutColumns)} as const;`,
      `export const read${number}: Read<${type}> = told${number};`,
    );
  };
  const ask = async (about: string, question: object) => {
    const response = await fetch(new URL(`api/${about}/ask`, served.url), { method: 'POST', body: JSON.stringify(question) });
    // Devices without a history cannot be replayed.
    return response.ok ? decode<any>(await response.arrayBuffer()) : null;
  };
  try {
    const recordings: any[] = await (await fetch(new URL('api/recordings', served.url))).json();
    is('Recording[]', recordings);
    for (const [file, { devices }] of recordings.entries()) {
      for (const [device, { allocations }] of devices.entries()) {
        const at = `${file}/${device}`;
        is('Meaning', await ask(at, { question: 'meaning' }));
        is('Report', await ask(at, { question: 'report' }));
        const replay = await ask(at, { question: 'replay' });
        // Long recordings add nothing to short ones.
        if (replay) is('Replay', { ...replay, lines: replay.lines.map((line: unknown[]) => line.slice(0, 3)) });
        if (allocations > 0) is('Allocation', await ask(at, { question: 'allocation', id: 0 }));
        const live = await ask(at, {
          question: 'live',
          moment: 0,
          by: 'line',
          calls: 'all',
          inverted: true,
          before: 0,
          search: null,
          only_found: false,
          zoom: [],
        });
        is(`Pick<Live, 'categories' | 'blocks' | 'found_blocks' | 'found_bytes'>`, live);
        is(`Pick<Live['holders'], 'key' | 'label'>`, live.holders);
        is(`Pick<Live['calls'], 'words'>`, live.calls);
        is(`Pick<Layout, 'moment' | 'counters'>`, await ask(at, { question: 'layout', moment: 0 }));
        is(`Pick<Picture, 'low' | 'high'>`, await ask(at, { question: 'picture', ...WINDOW }));
        is(`Pick<Regions, 'names'>`, await ask(at, { question: 'regions' }));
        is(`Pick<Segments, 'pools'>`, await ask(at, { question: 'segments' }));
        const rows = { search: null, among: { are: 'all' }, sort: 'line', descending: false, first: 0, count: 9 };
        is(`Pick<Allocations, 'count' | 'bytes' | 'first' | 'regions'>`, await ask(at, { question: 'allocations', ...rows }));
        is(`Pick<Found, 'count' | 'bytes'>`, await ask(at, { question: 'search', search: NOTHING }));
      }
    }
  } finally {
    served.stop();
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(written, lines.join('\n'));
  const options =
    '--noEmit --strict --ignoreConfig --skipLibCheck --verbatimModuleSyntax --target ES2023 --module ESNext --moduleResolution bundler';
  const tsc = spawnSync(join(viewer, 'node_modules/.bin/tsc'), [...options.split(' '), written], { encoding: 'utf8' });
  expect(tsc.stdout + tsc.stderr).not.toMatch(/error TS/);
  expect(tsc.status, tsc.stdout).toBe(0);
  expect(number).toBeGreaterThan(100);
});
