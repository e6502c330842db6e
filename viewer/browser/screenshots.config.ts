import { defineConfig } from 'vitest/config';

// Not tests: pictures of the page for the documentation. See screenshots.ts.
export default defineConfig({
  test: { include: ['browser/screenshots.ts'], testTimeout: 120_000, fileParallelism: false },
});
