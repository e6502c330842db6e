import { defineConfig } from 'vite';

// The bundle is committed and embedded into the command: files with fixed names, of which `ranks.js` is loaded by pages of a job alone. Besides the page itself there are two scripts that
// stand alone, built by `--mode worker` (the engine's worker) and `--mode carried` (the beginning of a self-contained page).
const ALONE: Record<string, string> = { worker: 'src/source/engine.worker.ts', carried: 'src/carried.ts' };

export default defineConfig(({ mode }) => {
  const alone = ALONE[mode];
  return {
    base: './',
    build: {
      outDir: '../crates/vramscope-viewer/page',
      // The engine lies there, too (engine.sh).
      emptyOutDir: false,
      target: 'es2022',
      modulePreload: false,
      assetsInlineLimit: 1_000_000,
      rollupOptions: alone
        ? { input: alone, output: { entryFileNames: `${mode}.js`, format: 'iife' } }
        : { output: { entryFileNames: 'viewer.js', chunkFileNames: '[name].js', assetFileNames: 'viewer[extname]' } },
    },
  };
});
