import { defineConfig } from 'vite';

// The bundle is committed and embedded into the command, so file names are fixed. Only pages of a job load `ranks.js`. Two scripts are
// built separately: the engine's worker (`--mode worker`) and the start-up script of a self-contained page (`--mode carried`).
const ALONE: Record<string, string> = { worker: 'src/source/engine.worker.ts', carried: 'src/carried.ts' };

export default defineConfig(({ mode }) => {
  const alone = ALONE[mode];
  return {
    base: './',
    build: {
      outDir: '../crates/vramscope-viewer/page',
      // engine.sh also writes there.
      emptyOutDir: false,
      target: 'es2022',
      modulePreload: false,
      assetsInlineLimit: 1_000_000,
      // The licenses of the libraries in the page, which .ci/licenses.py adds to those of the crates.
      license: alone ? false : { fileName: 'licenses.json' },
      rollupOptions: alone
        ? { input: alone, output: { entryFileNames: `${mode}.js`, format: 'iife' } }
        : { output: { entryFileNames: 'viewer.js', chunkFileNames: '[name].js', assetFileNames: 'viewer[extname]' } },
    },
  };
});
