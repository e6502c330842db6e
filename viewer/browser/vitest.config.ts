import { defineConfig } from 'vitest/config';

// Tests that start the built command, most of them with a browser. With VRAMSCOPE_TRANSPORT=worker, pages embed their engine and are
// opened from the disk (transport.ts).
const isWorker = process.env['VRAMSCOPE_TRANSPORT'] === 'worker';
const files = (...names: string[]) => names.map((name) => `browser/${name}.test.ts`);
// Tests of one transport, and of markup and keys alone: `./test` runs them.
const ONCE = files('access', 'bars', 'keys', 'told');
// These need the page's engine, which takes long to compile, or open hundreds of views, or the same views once more in another browser, in
// a notebook or with late answers. `./test --slow` runs them, with VRAMSCOPE_TRANSPORT=worker.
const LONG = files('addressed', 'firefox', 'late', 'notebook', 'site', 'sources', 'truth');

export default defineConfig({
  test: {
    include: ['browser/**/*.test.ts'],
    exclude: isWorker ? ONCE : LONG,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two files at a time, each with one browser for all its tests.
    maxWorkers: 2,
    isolate: false,
    expect: { poll: { timeout: 10_000, interval: 25 } },
  },
});
