import { defineConfig } from 'vite';

// The bundle is committed and embedded into the command: three files with fixed names, nothing loaded later.
export default defineConfig({
  base: './',
  build: {
    outDir: '../crates/vramscope-viewer/page',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    assetsInlineLimit: 1_000_000,
    rollupOptions: {
      output: {
        entryFileNames: 'viewer.js',
        assetFileNames: 'viewer[extname]',
      },
    },
  },
});
