// Measures waiting times on the page of all ranks: from the start of the command to the first drawing of the heat map, without and with
// cached summaries; a frame while the pointer moves over the map; a change of the order; and from a click on a rank to its Overview.
// fleet-of creates the jobs. Chromium is started before the measurement (VRAMSCOPE_CHROMIUM, else /usr/bin/chromium).
//
//     bench/run.py ranks [--ranks 64,512,4096] [--runs N]

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = resolve(import.meta.dirname, '../..');
const { chromium } = createRequire(join(root, 'viewer/package.json'))('playwright-core');
const { values: options } = parseArgs({
  options: { ranks: { type: 'string', default: '64,512,4096' }, runs: { type: 'string', default: '5' } },
});
const release = (name) => join(root, 'target/dist', name);
const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];
const browser = await chromium.launch({
  executablePath: process.env.VRAMSCOPE_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
});

/** Runs in the page: stores the time at which the map is first on the screen. */
function noteDrawing() {
  const look = () => {
    const canvas = document.querySelector('.heat-map canvas');
    if (canvas?.width) requestAnimationFrame(() => (globalThis.mapDrawn = Date.now()));
    else requestAnimationFrame(look);
  };
  look();
}

/** Starts the command and opens its page; `drawn` is the time in milliseconds until the map is on the screen. */
async function open(folder, ...words) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const tab = await context.newPage();
  await tab.addInitScript(noteDrawing);
  const start = Date.now();
  const command = spawn(release('vramscope'), ['fleet', folder, '--view', '--no-open', ...words], { stdio: ['ignore', 'pipe', 'ignore'] });
  const url = await new Promise((told) => command.stdout.once('data', (line) => told(String(line).trim())));
  await tab.goto(url, { waitUntil: 'commit' });
  await tab.waitForFunction(() => globalThis.mapDrawn, null, { polling: 'raf', timeout: 600_000 });
  const drawn = (await tab.evaluate(() => globalThis.mapDrawn)) - start;
  const close = async () => {
    await context.close();
    const ended = new Promise((end) => command.once('exit', end));
    command.kill();
    await ended;
  };
  return { tab, drawn, close };
}

/** Runs in the page: moves the pointer over the map; returns how long each move delays the next frame, in milliseconds. */
async function moves(times) {
  const map = document.querySelector('.heat-map');
  const { left, top, width, height } = map.getBoundingClientRect();
  const all = [];
  for (let n = 0; n < times; n += 1) {
    await new Promise((next) => requestAnimationFrame(next));
    const at = { clientX: left + width * (0.3 + (0.5 * n) / times), clientY: top + 30 + (n / times) * (height - 60), bubbles: true };
    const began = performance.now();
    map.dispatchEvent(new PointerEvent('pointermove', at));
    // Changes are rendered in a separate task; reading the height forces the layout.
    await new Promise((next) => setTimeout(next));
    void document.body.offsetHeight;
    all.push(performance.now() - began);
  }
  return all;
}

/** Runs in the page: changes the order of the ranks; returns the time until the next frame in milliseconds. */
async function ordered() {
  const began = performance.now();
  document.querySelector('.heat-part .segmented:nth-of-type(2) label:last-of-type input').click();
  await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
  return performance.now() - began;
}

/** Time from a click on a rank until its Overview is complete, in milliseconds. */
async function clicked(tab) {
  const began = Date.now();
  await tab.locator('.small-rank').first().click();
  await tab.locator('.overview[aria-busy="false"]').waitFor();
  return Date.now() - began;
}

const runs = Number(options.runs);
process.env.XDG_CACHE_HOME = mkdtempSync(join(tmpdir(), 'vramscope-bench-'));
const seconds = (all) => `${(median(all) / 1000).toFixed(2)} s`;
const milliseconds = (n) => `${n.toFixed(1)} ms`;
for (const ranks of options.ranks.split(',')) {
  const folder = mkdtempSync(join(tmpdir(), 'vramscope-bench-'));
  execFileSync(release('fleet-of'), [folder, ranks, '7']);
  const [read, kept, moved, order, click] = [[], [], [], [], []];
  // The first round warms the system's caches and writes the summaries.
  await (await open(folder)).close();
  for (let run = 0; run < runs; run += 1) {
    const anew = await open(folder, '--no-cache');
    read.push(anew.drawn);
    await anew.close();
    const page = await open(folder);
    kept.push(page.drawn);
    moved.push(...(await page.tab.evaluate(moves, 200)));
    order.push(await page.tab.evaluate(ordered));
    click.push(await clicked(page.tab));
    await page.close();
  }
  moved.sort((a, b) => a - b);
  console.log(
    `${ranks} ranks, medians of ${runs}: drawn ${seconds(read)} after the command was started with every recording read, ${seconds(kept)} from the cache; ` +
      `a move of the pointer ${milliseconds(median(moved))}, of a hundred the slowest ${milliseconds(moved[Math.floor(moved.length * 0.99)])}; ` +
      `another order ${milliseconds(median(order))}; from a click to the Overview ${seconds(click)}`,
  );
  rmSync(folder, { recursive: true });
}
await browser.close();
