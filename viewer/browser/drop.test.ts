// Files that are dropped on the page.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect } from 'vitest';
import { BOMBS } from './bombs';
import { example, report } from './command';
import { drop, type Dropped } from './dropping';
import { CLOSING, VIEWS, drawn, fileMenu, fileNames, numberOf, servingAlone, show, showsPeak, state, test } from './page';
import { known } from './recordings';
import { TRANSPORT, onlyServed } from './transport';

const LEAK = example('leak.pickle');
const OOM = example('oom.pickle');
const TRAINING = example('training.pickle.zst');

test('a page without a recording asks for one, and shows a dropped one', async ({ open }) => {
  const page = await open(await servingAlone(), { draws: false });
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await drop(page, LEAK);
  await drawn(page);
  await showsPeak(page, LEAK);
  expect(await fileNames(page)).toEqual(['leak.pickle']);
});

test('a dropped file opens beside the others and can be compared', async ({ open }) => {
  const page = await open(`${await servingAlone(LEAK)}#view=timeline&range=100~300&selected=3`);
  await drop(page, OOM);
  await expect.poll(() => fileNames(page)).toEqual(['leak.pickle', 'oom.pickle']);
  await expect.poll(() => fileMenu(page).inputValue()).toBe('1');
  await show(page, 'overview');
  await showsPeak(page, OOM);
  await show(page, 'compare');
  await expect.poll(() => numberOf(page, '.growth', 'data-b')).toBe(report(LEAK).devices[0].peak_allocated_bytes);
});

test('the button opens files too', async ({ open }) => {
  const page = await open(await servingAlone(), { draws: false });
  const chooser = page.waitForEvent('filechooser');
  await page
    .getByRole('button', { name: 'Open' })
    .or(page.getByRole('button', { name: 'Open a snapshot' }))
    .first()
    .click();
  await (await chooser).setFiles(OOM);
  await drawn(page);
  await expect
    .poll(() => numberOf(page, '[data-peak="reserved"]', 'data-bytes'))
    .toBe(report(OOM).devices[0].peak_reserved_bytes);
});

test('a file that is not a recording is refused with a reason, and the page stays', async ({ open }) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of 4\d\d/ });
  await drop(page, { name: 'notes.txt', bytes: Buffer.from('These are notes, no recording.') });
  const alert = page.getByRole('alert');
  await expect.poll(() => alert.textContent()).toContain('notes.txt: ');
  await drop(page, { name: 'cut.pickle', bytes: readFileSync(LEAK).subarray(0, 5000) });
  await expect.poll(() => alert.textContent()).toContain('it is truncated');
  await alert.getByRole('button', { name: 'Dismiss' }).click();
  await expect.poll(() => alert.textContent()).toBe('');
  await show(page, 'state');
  await expect.poll(() => numberOf(page, '.state-view', 'data-moment')).toBe(report(LEAK).devices[0].peak_event + 1);
  expect(await fileNames(page)).toHaveLength(1);
});

test('a file that is too large is refused with a reason', async ({ open, skip }) => {
  onlyServed(skip, 'a limit for what is sent to it');
  const page = await open(await servingAlone(LEAK), { expected: /status of 413|ERR_/ });
  await drop(page, { name: 'huge.pickle', bytes: Buffer.alloc(1 << 22, 0x80), times: 257 });
  await expect.poll(() => page.getByRole('alert').textContent(), { timeout: 20_000 }).toMatch(/larger than 1\.00 GiB/);
});

test('several files open one after the other, of any kind', async ({ open }) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of 4\d\d/ });
  await drop(
    page,
    OOM,
    { name: 'packed.json.gz', bytes: gzipSync(readFileSync(known(12).file)) },
    { name: 'notes.txt', bytes: Buffer.from('These are notes, no recording.') },
    { name: 'own.vramscope', bytes: readFileSync(example('../fuzz/corpus/read/log3')) },
    TRAINING,
  );
  await expect
    .poll(() => fileNames(page))
    .toEqual(['leak.pickle', 'oom.pickle', 'packed.json.gz', 'own.vramscope', 'training.pickle.zst']);
  await expect.poll(() => page.getByRole('alert').textContent()).toContain('notes.txt: ');
  await showsPeak(page, TRAINING);
});

test('hostile and truncated files are refused with a sentence, and the page continues', { timeout: 120_000 }, async ({
  open,
}) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of 4\d\d/ });
  const alert = page.getByRole('alert');
  for (const [name, bytes, why] of BOMBS) {
    await drop(page, { name, bytes });
    await expect.poll(() => alert.textContent(), { timeout: 30_000, message: name }).toContain(`${name}: `);
    expect(await alert.textContent(), name).toMatch(why);
    expect((await alert.textContent())!.length, name).toBeLessThan(400);
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await show(page, 'state');
  await drop(page, OOM);
  await expect.poll(() => fileMenu(page).inputValue()).not.toBe('0');
  await show(page, 'compare');
  await expect.poll(() => numberOf(page, '.growth', 'data-b')).toBe(report(LEAK).devices[0].peak_allocated_bytes);
});

/** Events of this many bytes, 4 MiB of them. */
const events = (bytes: number): Buffer => {
  const event = '{"action": "alloc", "addr": 4096, "size": 512, "stream": 0},'.padEnd(bytes);
  return Buffer.from(event.repeat((4 << 20) / bytes));
};

/** The parts of the file around the events. */
const AROUND: [string, string] = [
  '{"segments": [], "device_traces": [[',
  '{"action": "alloc", "addr": 1, "size": 1, "stream": 0}]]}',
];

/** A file that takes seconds to read. */
const LONG: Dropped = { name: 'long.json', bytes: events(64), times: 200, around: AROUND };

test('reading can be canceled, and open files stay', async ({ open }) => {
  const page = await open(await servingAlone(LEAK), { expected: /status of|ERR_/ });
  await drop(page, LONG, OOM);
  const reading = page.getByRole('dialog', { name: 'Reading long.json' });
  await reading.getByRole('progressbar', { name: 'Reading progress' }).waitFor();
  await reading.getByRole('button', { name: 'Cancel' }).click();
  await reading.waitFor({ state: 'detached' });
  // The following files are canceled too.
  expect(await fileNames(page)).toEqual(['leak.pickle']);
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
  await show(page, 'state');
  await drop(page, LONG);
  await reading.waitFor();
  await page.keyboard.press('Escape');
  await reading.waitFor({ state: 'detached' });
  await drop(page, OOM);
  await expect.poll(() => fileNames(page)).toHaveLength(2);
});

test('reading shows its progress', async ({ open, skip }) => {
  skip(TRANSPORT === 'server', 'a browser does not tell how much it sent');
  const page = await open(await servingAlone(LEAK));
  await drop(page, LONG);
  const progress = page.getByRole('progressbar', { name: 'Reading progress' });
  const value = () => progress.evaluate((bar: HTMLProgressElement) => bar.position);
  await expect.poll(value).toBeGreaterThan(0.05);
  const before = await value();
  await expect.poll(value).toBeGreaterThan(before);
  await page.keyboard.press('Escape');
});

test('the page warns before it reads a file that may not fit', async ({ open, skip }) => {
  skip(TRANSPORT === 'server', 'the server says itself what is too much');
  const page = await open(await servingAlone(LEAK));
  const doubt = (name: string) => page.getByRole('dialog', { name: `${name} may be too large for a page.` });
  const bytes = Buffer.alloc(4 << 20, 0x80);
  await drop(page, { name: 'huge.pickle', bytes, times: 500 });
  await expect
    .poll(() => doubt('huge.pickle').textContent())
    .toContain(
      'It has 1.95 GiB and may need 4.30 GiB of memory; a page can use 4.00 GiB. The command has no such limit: vramscope view FILE',
    );
  await page.keyboard.press('Escape');
  await doubt('huge.pickle').waitFor({ state: 'detached' });
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
  // A packed file expands, and can be read anyway.
  const start = Buffer.concat([gzipSync('These are notes.'), Buffer.alloc(4 << 20)]);
  await drop(page, { name: 'packed.gz', bytes: start, times: 40 });
  await expect.poll(() => doubt('packed.gz').textContent()).toContain('because it is compressed');
  await doubt('packed.gz').getByRole('button', { name: 'Read anyway' }).click();
  await expect.poll(() => page.getByRole('alert').textContent()).toContain('packed.gz: ');
  await show(page, 'state');
});

test('a stopped engine is replaced, and open files are read again', async ({ open, skip }) => {
  skip(TRANSPORT === 'server', 'its memory is as large as the machine');
  const page = await open(`${await servingAlone(LEAK, OOM)}#view=overview`);
  await page.evaluate(() => {
    // The worker's message when a file needs more memory than it has.
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (request: { file?: { content: File } }) {
      if (request.file?.content.name !== 'enormous.pickle') return post.call(this, request);
      this.dispatchEvent(new MessageEvent('message', { data: { error: 'unreachable', broken: true } }));
    };
  });
  await drop(page, { name: 'enormous.pickle', bytes: readFileSync(LEAK) });
  await expect.poll(() => page.getByRole('alert').textContent()).toContain('may need more than the 4 GiB that a page can use');
  for (const view of VIEWS) await show(page, view);
  await drop(page, TRAINING);
  await expect.poll(() => fileNames(page)).toEqual(['leak.pickle', 'oom.pickle', 'training.pickle.zst']);
  await fileMenu(page).selectOption('1');
  await show(page, 'overview');
  await showsPeak(page, OOM);
});

test('two gigabytes are read or refused, and the page continues', { timeout: 600_000 }, async ({ open, skip }) => {
  skip(TRANSPORT === 'server', 'it takes no more than a gigabyte');
  skip(!process.env['VRAMSCOPE_HUGE'], 'minutes, and 4 GiB of memory: VRAMSCOPE_HUGE=1');
  const page = await open(await servingAlone(LEAK));
  const read = async (name: string, bytes: number) => {
    const start = performance.now();
    await drop(page, { name, bytes: events(bytes), times: 500, around: AROUND });
    await page.getByRole('button', { name: 'Read anyway' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached', timeout: 300_000 });
    console.log(`${name}: ${((performance.now() - start) / 1000).toFixed(1)} s`);
  };
  await read('long.json', 256);
  await expect.poll(() => fileNames(page)).toEqual(['leak.pickle', 'long.json']);
  await show(page, 'state');
  await read('enormous.json', 64);
  await expect.poll(() => page.getByRole('alert').textContent(), { timeout: 60_000 }).toContain('may need more than the 4 GiB');
  await fileMenu(page).selectOption('0');
  await show(page, 'overview');
  await expect
    .poll(() => numberOf(page, '[data-peak="allocated"]', 'data-bytes'), { timeout: 60_000 })
    .toBe(report(LEAK).devices[0].peak_allocated_bytes);
});

test('closing a file frees room for others, and closing the last leaves an empty page', async ({ open }) => {
  const page = await open(await servingAlone(LEAK, OOM), CLOSING);
  await page.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect.poll(() => fileNames(page)).toEqual(['oom.pickle']);
  await show(page, 'overview');
  await showsPeak(page, OOM);
  await page.getByRole('button', { name: 'Close oom.pickle' }).click();
  await page.getByRole('heading', { name: 'No recording is open' }).waitFor();
  await drop(page, LEAK);
  await expect.poll(() => fileNames(page)).toEqual(['leak.pickle']);
});

test('a double click closes one file', async ({ open }) => {
  const page = await open(await servingAlone(LEAK, OOM), CLOSING);
  await page.route('**/close', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    await route.continue();
  });
  await page.getByRole('button', { name: 'Close leak.pickle' }).dblclick();
  await expect.poll(() => fileNames(page)).toEqual(['oom.pickle']);
  await expect.poll(async () => (await state(page))['file']).toBe('1');
  // Back skips the closed file.
  await page.goBack();
  await show(page, 'state');
  await expect.poll(() => numberOf(page, '.state-view', 'data-moment')).toBe(report(OOM).devices[0].peak_event + 1);
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
  expect(await fileNames(page)).toEqual(['oom.pickle']);
});

test('a file closed by another page is reported, and closes here too', async ({ open, skip }) => {
  onlyServed(skip, 'several pages');
  const url = await servingAlone(LEAK, OOM);
  const [one, two] = [await open(url, CLOSING), await open(url, CLOSING)];
  await two.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect.poll(() => fileNames(two)).toHaveLength(1);
  await one.getByRole('tab', { name: 'Moment' }).click();
  await one.getByText('another page may have closed it').waitFor();
  await one.getByRole('button', { name: 'Close leak.pickle' }).click();
  await expect.poll(() => fileNames(one)).toEqual(['oom.pickle']);
  await show(one, 'moment');
  await expect.poll(() => one.getByRole('alert').textContent()).toBe('');
});

test('dragged text is not treated as a file', async ({ open }) => {
  const page = await open(await servingAlone(LEAK));
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    transfer.setData('text/plain', 'hello');
    for (const type of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }
  });
  await expect.poll(() => page.locator('.drop').count()).toBe(0);
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
});
