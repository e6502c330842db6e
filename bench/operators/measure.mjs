// Measures the lanes of a large trace in the page: the time and memory of reading, the first drawing of the lanes, and the steps of zooming.
//
//     bench/run.py operators [OPERATORS] [--against BINARY]
//
// write.py writes a trace with OPERATORS events of the host (default: 1,000,000). BINARY is another build of the command, measured instead.
// Chromium is VRAMSCOPE_CHROMIUM, else /usr/bin/chromium-headless-shell.
//
// A step lasts from the wheel event to the second frame after the answer about the lanes.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const root = resolve(import.meta.dirname, '../..');
const { chromium } = createRequire(join(root, 'viewer/package.json'))('playwright-core');
const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { against: { type: 'string' } } });
const command = options.against ?? join(root, 'target/dist/vramscope');
const STEPS = 30;

const folder = mkdtempSync(join(tmpdir(), 'vramscope-bench-'));
execFileSync('python3', [join(import.meta.dirname, 'write.py'), folder, ...positionals], { stdio: 'inherit' });

const began = performance.now();
const files = ['--operators', join(folder, 'trace.json'), join(folder, 'run.json')];
const served = spawn(command, ['view', '--no-open', ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
const url = await new Promise((told) => served.stdout.once('data', (line) => told(line.toString().trim())));
await (await fetch(`${url}api/recordings`)).json();
console.log(`read in ${((performance.now() - began) / 1000).toFixed(1)} s`);
const status = readFileSync(`/proc/${served.pid}/status`, 'utf8');
const memory = (name) => (Number(status.match(new RegExp(`${name}:\\s+(\\d+)`))[1]) / 1024).toFixed(0);
console.log(`memory of the command: ${memory('VmRSS')} MiB now, ${memory('VmHWM')} MiB at most`);

const browser = await chromium.launch({
  executablePath: process.env.VRAMSCOPE_CHROMIUM ?? '/usr/bin/chromium-headless-shell',
  args: ['--headless', '--no-sandbox', '--disable-gpu'],
});
const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
await page.addInitScript(() => {
  globalThis.answers = [];
  const plain = globalThis.fetch;
  globalThis.fetch = async (path, init) => {
    const isPicture = String(init?.body).includes('operator_picture');
    const sent = performance.now();
    const answer = await plain(path, init);
    if (isPicture && answer.ok) globalThis.answers.push(performance.now() - sent);
    return answer;
  };
});
const opened = performance.now();
await page.goto(`${url}#view=timeline&axis=time`);
await page.locator('.operators[data-spans]:not([data-spans="0"])').waitFor();
console.log(`first drawing of the lanes after ${(performance.now() - opened).toFixed(0)} ms`);

const steps = await page.evaluate(async (count) => {
  const box = document.querySelector('.operators-box');
  const { left, top, width } = box.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const steps = [];
  for (let i = 0; i < count; i += 1) {
    await new Promise((done) => setTimeout(done, 300));
    const [before, from] = [globalThis.answers.length, performance.now()];
    // In, then out again.
    const deltaY = i < count / 2 ? -300 : 300;
    box.dispatchEvent(new WheelEvent('wheel', { deltaY, clientX: left + width * 0.6, clientY: top + 20, cancelable: true, bubbles: true }));
    const first = await frame();
    const drawn = performance.now() - from;
    while (globalThis.answers.length === before && performance.now() - from < 5000) await frame();
    await frame();
    await frame();
    steps.push({ drawn, whole: performance.now() - from, answer: globalThis.answers.at(-1), first });
  }
  return steps;
}, STEPS);
const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
for (const [name, key] of [['first frame', 'drawn'], ['answer of the server', 'answer'], ['exact lanes on the screen', 'whole']]) {
  const values = steps.map((step) => step[key]);
  console.log(`zoom, ${name}: median ${middle(values).toFixed(0)} ms, longest ${Math.max(...values).toFixed(0)} ms`);
}
const spans = await page.locator('.operators').getAttribute('data-spans');
console.log(`${spans} spans in the last picture`);
await browser.close();
served.kill();
rmSync(folder, { recursive: true });
