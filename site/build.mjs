// Builds the site into dist/site: the page with its engine beside it, the examples, and what keeps all of it offline.
// `npm --prefix viewer run site`; any server of files will do, under any path.

import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';

const root = resolve(import.meta.dirname, '..');
const out = resolve(root, process.argv[2] ?? 'dist/site');
const page = process.env.VRAMSCOPE_PAGE ?? join(root, 'crates/vramscope-viewer/page');

/** The recordings of the first page, in its order. */
const EXAMPLES = [
  { file: 'oom.pickle', title: 'Out of memory', text: 'a program that ran out of memory: what held it, and what would have helped' },
  { file: 'training.pickle.zst', title: 'Training', text: 'steps of training: parameters, gradients, optimizer state, activations' },
  { file: 'leak.pickle', title: 'A leak', text: 'a list of losses that keeps the whole graph of every step' },
];

/** Scripts are those of the site, WebAssembly is its engine, and nothing is asked of anybody else. */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self'; " +
  "img-src 'self' blob: data:; manifest-src 'self'; base-uri 'none'; form-action 'none'";

const HEAD = `
    <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
    <meta name="description" content="See, explain and fix GPU memory: drop a snapshot of PyTorch's CUDA allocator. It never leaves your browser." />
    <link rel="manifest" href="manifest.webmanifest" />
    <link rel="preload" as="fetch" crossorigin href="engine.wasm" />
    <link rel="preload" as="fetch" crossorigin href="examples/training.pickle.zst" />
    <script type="application/json" id="examples">${JSON.stringify(EXAMPLES)}</script>
  `;

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, 'examples'), { recursive: true });
for (const file of ['viewer.js', 'viewer.css', 'worker.js', 'licenses.json']) cpSync(join(page, file), join(out, file));
writeFileSync(join(out, 'engine.wasm'), gunzipSync(readFileSync(join(page, 'engine.wasm.gz'))));
for (const file of ['manifest.webmanifest', 'icon.svg']) cpSync(join(root, 'site', file), join(out, file));
for (const { file } of EXAMPLES) cpSync(join(root, 'examples', file), join(out, 'examples', file));
writeFileSync(join(out, 'index.html'), readFileSync(join(page, 'index.html'), 'utf8').replace('</head>', `${HEAD}</head>`));

const files = readdirSync(out, { recursive: true })
  .filter((name) => statSync(join(out, name)).isFile())
  .sort();
const hash = createHash('sha256');
for (const name of files) hash.update(name).update(readFileSync(join(out, name)));
const offline = readFileSync(join(root, 'site/offline.js'), 'utf8')
  .replace('%VERSION%', `vramscope-${hash.digest('hex').slice(0, 16)}`)
  .replace("['%FILES%']", JSON.stringify(['./', ...files.filter((name) => name !== 'index.html')]));
writeFileSync(join(out, 'offline.js'), offline);
console.log(out);
