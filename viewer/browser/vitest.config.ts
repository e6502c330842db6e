import { defineConfig } from 'vitest/config';

// Tests that start the built command, most of them with a browser. With VRAMSCOPE_TRANSPORT=worker, pages embed their engine and are
// opened from the disk (transport.ts). Tests of one transport, and of markup and keys alone, are then excluded.
const isWorker = process.env['VRAMSCOPE_TRANSPORT'] === 'worker';
const ONCE = ['access', 'bars', 'firefox', 'keys', 'notebook', 'site', 'sources', 'told'].map(
  (name) => `browser/${name}.test.ts`,
);
// These open hundreds of views: `./test --slow` runs them, with pages that embed their engine.
const LONG = ['addressed', 'truth'].map((name) => `browser/${name}.test.ts`);

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
