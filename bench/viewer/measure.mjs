// Measures waiting times in the page, served or on the static site: the first drawing, a step of zooming or panning, a jump in the state
// history, and the stack under the pointer. Also measures the page's memory. Chromium is started before the measurement
// (VRAMSCOPE_CHROMIUM, else /usr/bin/chromium).
//
//     bench/run.py viewer [RECORDING] [--runs N] [--long TIMES,...] [--against BINARY]     the page of vramscope view
//     bench/run.py viewer [RECORDING] --carried ...      also a self-contained page, in alternating runs
//     bench/run.py viewer [RECORDING] --site ...         also the static site, on which the recording is dropped, in alternating runs
//     bench/run.py viewer --memory-viz PAGE.html         a page of PyTorch's memory_viz, the same steps
//
// --long also measures the recording repeated TIMES times (default: 10), as a longer recording: 78 are 54 million events, 4.2 GB on disk.
// BINARY is another build of the command, measured in the same alternating runs.
//
// A step lasts until the exact picture is on the screen: from the wheel event to the first frame after the page reports the
// exact drawing (`data-drawn`). The stretched picture that it shows meanwhile does not count.

import { spawn, execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const root = resolve(import.meta.dirname, '../..');
const { chromium } = createRequire(join(root, 'viewer/package.json'))('playwright-core');

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: 'string', default: '5' },
    long: { type: 'string', default: '10' },
    against: { type: 'string' },
    'memory-viz': { type: 'string' },
    carried: { type: 'boolean', default: false },
    site: { type: 'boolean', default: false },
  },
});
const large = join(root, '../shared/data/large/resnet50-torch2.11-700k-events.pickle.zst');
const release = (name) => join(root, 'target/dist', name);
const folder = mkdtempSync(join(tmpdir(), 'vramscope-bench-'));
const commands = new Set();
/** Ways to open a recording, by name. */
const pages = {
  vramscope: served(release('vramscope')),
  ...(options.against && { against: served(resolve(options.against)) }),
  ...(options.carried && { carried: carried(release('vramscope')) }),
  ...(options.site && { site: dropped(await serveSite()) }),
};

const browser = await chromium.launch({
  executablePath: process.env.VRAMSCOPE_CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync',
  ],
});

async function viewer(recording) {
  if (!existsSync(recording)) throw new Error(`no recording at ${recording}; name one`);
  const runs = Number(options.runs);
  console.log(`${recording.split('/').pop()}, ${runs} runs`);
  await inTurns(recording, runs);
  const sizes = options.long.split(',').map(Number).filter((times) => times > 1);
  const plain = sizes.length > 0 && recording.endsWith('.zst') ? unpacked(recording) : recording;
  for (const times of sizes) {
    const long = join(folder, 'long.pickle');
    execFileSync(release('repeat'), [plain, long, String(times)]);
    // Otherwise writes to the disk would still be in progress during the measurement.
    execFileSync('sync', [long]);
    const few = Math.min(runs, 3);
    console.log(`the same events ${times} times over, ${(statSync(long).size / 1e9).toFixed(2)} GB, ${few} runs`);
    await inTurns(long, few);
    rmSync(long);
  }
  const gpt2 = join(root, '../shared/data/phantom/gpt2-torch2.11-default.pickle');
  if (existsSync(gpt2)) size(gpt2);
}

/** Opens the recording in each way, alternating, after one round that warms the caches, and measures the last pages. */
async function inTurns(recording, runs) {
  const opened = Object.fromEntries(Object.keys(pages).map((name) => [name, []]));
  for (let run = 0; run <= runs; run += 1) {
    for (const [name, open] of Object.entries(pages)) {
      const page = await open(recording);
      if (run > 0) opened[name].push(page.opened);
      if (run === runs) {
        if (Object.keys(pages).length > 1) console.log(` ${name}:`);
        await measure(page, opened[name]);
      } else await page.close();
    }
  }
}

function unpacked(recording) {
  const plain = join(folder, 'plain.pickle');
  execFileSync('zstd', ['-q', '-d', recording, '-o', plain]);
  return plain;
}

const drawnAt = () => performance.timeOrigin + performance.getEntriesByName('vramscope:drawn')[0].startTime;
const isDrawn = (tab) =>
  tab.waitForFunction(() => Number(document.documentElement.dataset.drawn) >= 1, null, { polling: 'raf', timeout: 600_000 });

/** Starts the command and opens its page. */
function served(binary) {
  return async (recording) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const tab = await context.newPage();
    const start = Date.now();
    const command = spawn(binary, ['view', '--no-open', recording], { stdio: ['ignore', 'pipe', 'inherit'] });
    commands.add(command);
    const url = await new Promise((told) => command.stdout.once('data', (line) => told(String(line).trim())));
    await tab.goto(`${url}#view=timeline`, { waitUntil: 'commit' });
    await isDrawn(tab);
    const drawn = await tab.evaluate(drawnAt);
    const close = async () => {
      await context.close();
      const ended = new Promise((end) => command.once('exit', end));
      command.kill();
      await ended;
    };
    return { tab, opened: drawn - start, close, process: command.pid };
  };
}

/** Writes a self-contained page, and opens it. The time does not include writing it. */
function carried(binary) {
  return async (recording) => {
    const page = join(folder, 'carried.html');
    execFileSync(binary, ['view', recording, '--html', page], { stdio: 'pipe' });
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const tab = await context.newPage();
    const start = Date.now();
    await tab.goto(`${pathToFileURL(page)}#view=timeline`, { waitUntil: 'commit' });
    await isDrawn(tab);
    const drawn = await tab.evaluate(drawnAt);
    return { tab, opened: drawn - start, close: () => context.close(), process: null };
  };
}

/** Opens the site, and then the recording in it. The time starts when the page receives the file. */
function dropped(url) {
  return async (recording) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const tab = await context.newPage();
    await tab.goto(`${url}#view=timeline`);
    await tab.getByRole('heading', { name: 'No recording is open' }).waitFor();
    await tab.evaluate(() => navigator.serviceWorker.ready);
    await tab.evaluate(() => addEventListener('change', () => performance.mark('bench:chosen'), { capture: true, once: true }));
    await tab.locator('input[type=file]').setInputFiles(recording);
    await isDrawn(tab);
    const drawn = await tab.evaluate(drawnAt);
    const chosen = await tab.evaluate(() => performance.timeOrigin + performance.getEntriesByName('bench:chosen')[0].startTime);
    return { tab, opened: drawn - chosen, close: () => context.close(), process: null };
  };
}

/** Builds and serves the site; returns its address. */
async function serveSite() {
  execFileSync('node', [join(root, 'site/build.mjs'), join(folder, 'site')]);
  const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
  const server = createServer((request, response) => {
    const name = new URL(request.url, 'http://site').pathname.slice(1) || 'index.html';
    response.setHeader('content-type', kinds[extname(name)] ?? 'application/octet-stream');
    response.end(readFileSync(join(folder, 'site', name)));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  server.unref();
  return `http://127.0.0.1:${server.address().port}/`;
}

async function measure({ tab, close, process: server }, opened) {
  line(`${server ? 'start of the command' : 'the page or file is opened'} to the first drawing`, opened);
  const box = await tab.getByRole('img').first().boundingBox();
  const steps = [];
  for (const [count, wheel] of [[20, [0, -120]], [15, [90, 0]], [15, [-90, 0]], [20, [0, 120]]]) {
    for (let i = 0; i < count; i += 1) {
      const at = [box.x + box.width * (0.2 + 0.6 * ((i * 0.37) % 1)), box.y + box.height / 2];
      steps.push(await step(tab, at, wheel));
    }
  }
  line('a step of zooming or panning', steps);

  const hovers = [];
  for (let i = 0; i < 40; i += 1) {
    hovers.push(await hover(tab, [box.x + box.width * (0.1 + 0.8 * ((i * 0.618) % 1)), box.y + box.height * (0.85 - 0.1 * (i % 3))]));
  }
  line('pointer to stack', hovers);

  await tab.keyboard.press('0');
  const whole = await tab.getByRole('img', { name: /events 0 to [\d,]+:/ }).first().getAttribute('aria-label');
  const events = Number(/events 0 to ([\d,]+):/.exec(whole)[1].replaceAll(',', ''));
  await tab.evaluate(() => (location.hash = '#view=state&moment=1'));
  await tab.waitForSelector('[data-moment="1"][data-reserved]');
  const jumps = [];
  for (let i = 0; i < 40; i += 1) jumps.push(await jump(tab, 1 + Math.floor(events * ((i * 0.618034) % 1))));
  line('a jump in the state history', jumps);

  const session = await tab.context().newCDPSession(tab);
  await session.send('HeapProfiler.collectGarbage');
  const heap = await session.send('Runtime.getHeapUsage');
  const held = heap.usedSize + heap.embedderHeapUsedSize + heap.backingStorageSize;
  console.log(`  ${'memory the page holds'.padEnd(44)}${(held / 1e6).toFixed(1).padStart(9)} MB`);
  if (server) {
    const [now, highest] = residentBytes(server);
    console.log(`  ${'memory of the server, and its highest'.padEnd(44)}${(now / 1e9).toFixed(2).padStart(9)} GB, ${(highest / 1e9).toFixed(2)} GB`);
  }
  const inBrowser = await renderers();
  const own = inBrowser.map(ownBytes).reduce((sum, bytes) => sum + bytes);
  const resident = inBrowser.map((id) => residentBytes(id)[1]).reduce((sum, bytes) => sum + bytes);
  console.log(`  ${'memory of the browser for page and workers'.padEnd(44)}${(own / 1e6).toFixed(1).padStart(9)} MB of its own, at most ${(resident / 1e6).toFixed(1)} MB resident`);
  await close();
}

/** Ids of the browser's renderer processes. */
async function renderers() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);
}

/** Private bytes of a process, without memory that it shares with others, such as the browser's code. */
function ownBytes(process) {
  const rollup = readFileSync(`/proc/${process}/smaps_rollup`, 'utf8');
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].reduce((sum, [, kib]) => sum + Number(kib) * 1024, 0);
}

/** Resident bytes of a process: current and peak. */
function residentBytes(process) {
  const status = readFileSync(`/proc/${process}/status`, 'utf8');
  return ['VmRSS', 'VmHWM'].map((name) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)[1]) * 1024);
}

/** Milliseconds from one turn of the wheel until the exact picture is on the screen. */
const step = (tab, at, wheel) =>
  tab.evaluate(
    ([[x, y], [deltaX, deltaY]]) =>
      new Promise((done) => {
        const root = document.documentElement;
        const [before, start] = [root.dataset.drawn, performance.now()];
        const event = { clientX: x, clientY: y, deltaX, deltaY, bubbles: true, cancelable: true };
        const look = new MutationObserver(() => {
          if (root.dataset.drawn === before) return;
          look.disconnect();
          requestAnimationFrame(() => done(performance.now() - start));
        });
        look.observe(root, { attributes: true });
        document.elementFromPoint(x, y).dispatchEvent(new WheelEvent('wheel', event));
        setTimeout(() => done(NaN), 3000);
      }),
    [at, wheel],
  );

/** Milliseconds from a pointer move until the tooltip shows a stack. */
async function hover(tab, [x, y]) {
  await tab.mouse.move(0, 0);
  const shown = tab.evaluate(
    () =>
      new Promise((done) => {
        let start = null;
        addEventListener('pointermove', () => (start = performance.now()), { capture: true, once: true });
        const began = performance.now();
        const look = () => {
          if (start !== null && document.querySelector('.part-tooltip li')) requestAnimationFrame(() => done(performance.now() - start));
          // Nothing is under the pointer.
          else if (performance.now() - began > 2000) done(NaN);
          else setTimeout(look);
        };
        look();
      }),
  );
  await tab.mouse.move(x, y);
  return shown;
}

/** Milliseconds from a move of the slider until the blocks after the new event are drawn. */
const jump = (tab, moment) =>
  tab.evaluate(
    (moment) =>
      new Promise((done) => {
        const panel = document.querySelector('.state-view');
        const slider = panel.querySelector('input[type="range"]');
        const start = performance.now();
        const look = new MutationObserver(() => {
          if (panel.dataset.moment !== String(moment)) return;
          look.disconnect();
          requestAnimationFrame(() => done(performance.now() - start));
        });
        look.observe(panel, { attributes: true });
        slider.value = String(moment);
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        setTimeout(() => done(NaN), 3000);
      }),
    moment,
  );

function size(recording) {
  const page = join(folder, 'page.html');
  execFileSync(release('vramscope'), ['view', recording, '--html', page], { stdio: 'pipe' });
  const data = /<script[^>]* id="recordings">([^<]*)</.exec(readFileSync(page, 'utf8'))[1].length;
  const zst = Number(execFileSync('sh', ['-c', 'zstd -q -c "$1" | wc -c', 'sh', recording]));
  console.log(`a self-contained page of ${recording.split('/').pop()}`);
  console.log(`  ${data} bytes of ${statSync(page).size}; its pickle as .zst: ${zst}; ratio ${(data / zst).toFixed(2)}`);
}

/** Measures memory_viz with the same browser and the same kind of steps, on a page of `_memory_viz.py trace_plot`. */
async function memoryViz(file) {
  const tab = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  const start = Date.now();
  await tab.goto(`file://${resolve(file)}`, { waitUntil: 'commit' });
  await tab.waitForSelector('svg polygon', { timeout: 600_000 });
  line('opening the page to the first drawing', [Date.now() - start]);
  const steps = [];
  for (let i = 0; i < 10; i += 1) {
    steps.push(
      await tab.evaluate(
        () =>
          new Promise((done) => {
            const polygon = document.querySelector('svg polygon');
            const { x, y, width, height } = polygon.ownerSVGElement.getBoundingClientRect();
            const event = { clientX: x + width / 2, clientY: y + height / 2, deltaY: -120, bubbles: true, cancelable: true };
            const start = performance.now();
            polygon.dispatchEvent(new WheelEvent('wheel', event));
            requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
          }),
      ),
    );
  }
  line('a step of zooming', steps);
}

/** Prints the median. Steps that never end are counted but not timed: a wheel that could not move, a pointer above the stack. */
function line(name, values) {
  const sorted = values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
  if (sorted.length === 0) throw new Error(`${name}: nothing happened in ${values.length} tries`);
  const median = sorted[sorted.length >> 1];
  const all = sorted.length > 1 ? `   (${sorted[0].toFixed(0)} to ${sorted.at(-1).toFixed(0)}, ${sorted.length} of ${values.length})` : '';
  console.log(`  ${name.padEnd(44)}${median.toFixed(1).padStart(9)} ms${all}`);
}

try {
  if (options['memory-viz']) await memoryViz(options['memory-viz']);
  else await viewer(positionals[0] ?? large);
} finally {
  commands.forEach((command) => command.kill());
  await browser.close();
  rmSync(folder, { recursive: true });
}
