// Measures reading with the page's engine, compiled to WebAssembly, against the command, in alternating runs.
//
//     bench/run.py engine [RECORDING] [--runs N]
//
// Each run is a separate process. The command's time is that of the whole process. The engine's time lasts until the last byte is read; the
// time until the recording is ready for requests is printed too. As on a site, the engine has read an example before; without that it is a
// fifth slower. Prints medians, and the median of the ratios, for the uncompressed recording and for the recording compressed with zstd.

import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

const here = fileURLToPath(import.meta.url);
const root = resolve(here, '../../..');

/** The file that a site's engine reads before any other (site/build.mjs), and the milliseconds until the code that this ran is compiled. */
const EXAMPLE = join(root, 'examples/training.pickle.zst');
const COMPILED_MS = 300;

/** In a separate process, as in a newly opened page: prints the milliseconds until the last byte was requested, and until all is ready. */
async function once(file) {
  const { Engine, initSync } = await import(join(root, 'viewer/src/source/generated/vramscope_wasm.js'));
  initSync({ module: gunzipSync(readFileSync(join(root, 'crates/vramscope-viewer/page/engine.wasm.gz'))) });
  const engine = new Engine();
  const open = (file) => {
    const from = openSync(file, 'r');
    const begun = performance.now();
    let last = begun;
    const read = (into) => {
      const n = readSync(from, into, 0, into.length, null);
      last = performance.now();
      return n;
    };
    engine.open(0, basename(file), undefined, { read, progress: () => {} });
    closeSync(from);
    return { read: last - begun, open: performance.now() - begun };
  };
  open(EXAMPLE);
  engine.close(0);
  await new Promise((done) => setTimeout(done, COMPILED_MS));
  console.log(JSON.stringify(open(file)));
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Paths of the recording uncompressed and compressed with zstd. */
function forms(recording, folder) {
  const plain = join(folder, 'recording');
  const packed = `${plain}.zst`;
  if (recording.endsWith('.zst')) execFileSync('zstd', ['-dqf', recording, '-o', plain]);
  else execFileSync('cp', [recording, plain]);
  execFileSync('zstd', ['-qf', plain, '-o', packed]);
  return { plain, packed };
}

function main() {
  const words = process.argv.slice(2);
  const at = words.indexOf('--runs');
  const runs = at < 0 ? 11 : Number(words.splice(at, 2)[1]);
  const recording = words[0] ?? join(root, '../shared/data/large/resnet50-torch2.11-700k-events.pickle.zst');
  const folder = mkdtempSync(join(tmpdir(), 'vramscope-'));
  const command = join(root, 'target/dist/vramscope');
  try {
    for (const [form, file] of Object.entries(forms(recording, folder))) {
      const turns = Array.from({ length: runs }, () => {
        const begun = performance.now();
        spawnSync(command, ['info', file], { stdio: 'ignore' });
        const native = performance.now() - begun;
        return { native, ...JSON.parse(execFileSync(process.execPath, [here, '--once', file], { encoding: 'utf8' })) };
      });
      const of = (name) => median(turns.map((turn) => turn[name]));
      const ratio = median(turns.map(({ native, read }) => read / native));
      console.log(
        `${form}, ${(statSync(file).size / 1e6).toFixed(1)} MB: vramscope info ${of('native').toFixed(0)} ms; the engine's read ` +
          `${of('read').toFixed(0)} ms, ${ratio.toFixed(2)} times; ready for questions after ${of('open').toFixed(0)} ms`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (process.argv[2] === '--once') await once(process.argv[3]);
else main();
