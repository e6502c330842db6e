// The server and the engine in the page give the same answers: the same code runs on another machine.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { Source } from '../src/source/questions';
import { NONE } from '../src/source/source';
import type { Axis, ByteKind, CallTransform, Query, Window } from '../src/source/source';
import { GROUPS } from '../src/state/grouping';
import { asking, engineOf, engineOfPage } from './asking';
import { data, example, serve, writePage, type Served } from './command';
import { log } from './recordings';
import { TRANSPORT } from './transport';

/** Returns a folder's larger recordings, which `./test --slow` compares; empty if the folder is missing. */
function larger(folder: string, names = /./): string[] {
  const path = join(data ?? '', folder);
  return TRANSPORT === 'worker' && data && existsSync(path)
    ? readdirSync(path)
        .filter((name) => names.test(name))
        .map((name) => join(path, name))
    : [];
}

const files = [
  ...['training.pickle.zst', 'oom.pickle', 'leak.pickle'].map(example),
  ...larger('phantom', /^(streams|mempool|two_gpus|mlp).*pickle$/),
  ...larger('real'),
];

const running: Served[] = [];
afterAll(() => running.forEach((r) => r.stop()));

let seed = 1;
const random = (below: number) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
};

const ANYTHING: Query = { is: 'size', sign: 'at_least', size: '0' };
/** Some stacks, without small blocks. */
const ODD: Query = {
  is: 'all',
  of: [
    { is: 'frame', field: 'any', sought: { text: '(forward|backward)$', is_pattern: true } },
    { is: 'size', sign: 'at_least', size: '4 KiB' },
  ],
};

const TRANSFORMS: CallTransform[] = [
  { does: 'merge', frames: { of: 'library', name: 'torch' } },
  { does: 'collapse_libraries', expanded: ['c10::'] },
  { does: 'drop', frames: { of: 'function', name: 'at::native::convolution', file: '' } },
];

const plain = (answer: unknown): unknown =>
  JSON.parse(JSON.stringify(answer, (_, v) => (ArrayBuffer.isView(v) ? Array.from(v as Uint8Array, String) : v)));

describe.each([...files, log])('%s', (file) => {
  test('answers are the same', async () => {
    const served = await serve(file);
    running.push(served);
    // A page carries a log as a log; other recordings, whose ids may differ there, are read from the file.
    const [a, b] = [asking(served.url), file === log ? engineOfPage(writePage(file)) : engineOf(file)];
    const recordings = await a.recordings();
    expect(plain(await b.recordings())).toEqual(plain(recordings));
    expect(plain(await b.names(0))).toEqual(plain(await a.names(0)));
    for (const [d, device] of recordings[0]!.devices.entries()) {
      const same = async <T>(ask: (source: Source) => Promise<T>) => expect(plain(await ask(b))).toEqual(plain(await ask(a)));
      const moments = [
        0,
        device.events,
        device.peaks.allocated.moment,
        ...Array.from({ length: 5 }, () => random(device.events + 1)),
      ];
      for (const moment of moments) {
        const before = random(device.events + 1);
        for (const [i, by] of GROUPS.entries()) {
          const one = {
            moment,
            by,
            calls: (['own', 'python', 'all'] as const)[i % 3]!,
            inverted: i % 2 === 0,
            before: i % 3 === 0 ? before : null,
            search: i % 4 === 0 ? ODD : null,
            only_found: i % 8 === 0,
            zoom: i % 2 === 0 ? [0, i] : [],
            transforms: i % 3 === 1 ? TRANSFORMS : [],
          };
          await same((s) => s.ask(0, d, { question: 'live', ...one }));
        }
        const other = { other_file: 0, other_device: d, other_moment: before, other_search: null };
        await same((s) => s.ask(0, d, { question: 'holders_of_both', moment, by: 'line', search: null, ...other }));
        await same((s) => s.ask(0, d, { question: 'layout', moment }));
      }
      await same((s) => s.ask(0, d, { question: 'events', first: Math.max(device.events - 300, 0), count: 400 }));
      const first = random(device.events + 1);
      await same((s) => s.ask(0, d, { question: 'events', first, count: 100 }));
      await same((s) => s.ask(0, d, { question: 'regions' }));
      await same((s) => s.ask(0, d, { question: 'segments' }));
      await same((s) => s.ask(0, d, { question: 'report' }));
      for (let i = 0; i < Math.min(device.allocations, 20); i += 1) {
        const id = random(device.allocations);
        await same((s) => s.ask(0, d, { question: 'allocation', id }));
      }
      await same((s) => s.ask(0, d, { question: 'search', search: ANYTHING }));
      await same((s) => s.ask(0, d, { question: 'search', search: ODD }));
      await same((s) => s.ask(0, d, { question: 'search', search: { is: 'transforms', transforms: TRANSFORMS } }));
      await same((s) =>
        s.ask(0, d, {
          question: 'search',
          search: {
            is: 'any',
            of: [ODD, { is: 'not', of: { is: 'tag', field: 'stream', sought: { text: 'default', is_pattern: false } } }],
          },
        }),
      );
      await same((s) => s.meaning(0, d));
      await same((s) =>
        s.ask(0, d, { question: 'search', search: { is: 'category', sought: { text: 'a', is_pattern: false } } }),
      );
      await same((s) =>
        s.ask(0, d, {
          question: 'search',
          search: {
            is: 'freed',
            spans: [
              [NONE, NONE],
              [0, 100],
            ],
          },
        }),
      );
      if (device.allocations > 0) {
        const id = random(device.allocations);
        const { address, version } = await a.ask(0, d, { question: 'allocation', id });
        await same((s) => s.ask(0, d, { question: 'search', search: { is: 'address', address, version } }));
        await same((s) => s.ask(0, d, { question: 'place', id, stacked: 'active', only: ODD }));
      }
      for (const among of [{ are: 'all' }, { are: 'live_at', moment: device.events }] as const) {
        for (const sort of ['line', 'lifetime_us', 'region'] as const)
          await same((s) =>
            s.ask(0, d, { question: 'allocations', search: ODD, among, sort, descending: true, first: 3, count: 200, find: 7 }),
          );
      }
      const specks = { search: ODD, axis: 'events', from: 0, to: device.events + 1, width: 300, bytes: 1e6 } as const;
      await same((s) => s.ask(0, d, { question: 'specks', ...specks }));
      for (const stacked of ['requested', 'allocated', 'active', 'reserved'] as ByteKind[]) {
        for (const axis of (device.origin_us === null ? ['events'] : ['events', 'time']) as Axis[]) {
          const whole = axis === 'time' ? Math.max(device.duration_us ?? 0, 1) : device.events + 1;
          for (const zoom of [1, 1.2, 0.1, 0.003]) {
            const from = zoom > 1 ? -0.1 * whole : (random(1000) / 1000) * (1 - zoom) * whole;
            const window: Window = {
              stacked,
              axis,
              from,
              to: from + zoom * whole,
              width: 200 + random(300),
              height: 50 + random(100),
              low: zoom === 0.1 ? 1e6 : 0,
              high: zoom === 0.1 ? 5e8 : null,
              fit_reserved: zoom === 1,
              only: zoom === 1.2 ? ODD : null,
            };
            await same((s) => s.picture(0, d, window));
            if (stacked === 'allocated') {
              const { width, only } = window;
              await same((s) => s.ask(0, d, { question: 'bands', axis, from, to: window.to, width, only }));
            }
          }
        }
      }
    }
  });
});
