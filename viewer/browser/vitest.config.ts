import { defineConfig } from 'vitest/config';

// Tests that start the built command, most of them with a browser.
export default defineConfig({
  test: {
    include: ['browser/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    // One browser for all of them.
    isolate: false,
    expect: { poll: { timeout: 10_000, interval: 25 } },
  },
});
