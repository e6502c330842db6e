// The Python package's `_repr_html_` of a recording, in frames like those of notebooks.

import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Frame } from 'playwright-core';
import { expect } from 'vitest';
import { example, report, scratch } from './command';
import { drawn, test } from './page';
import { saved } from './saving';
import { skipping } from './skipping';

const root = resolve(import.meta.dirname, '../..');
// The output of `./test --python`.
const python = process.env['VRAMSCOPE_PYTHON'] ?? join(root, 'target/python/bin/python');

const quoted = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');

/** Returns the HTML that a notebook receives for a recording. */
function shown(file: string): string {
  const program = 'import sys, vramscope; print(vramscope.read(sys.argv[1])._repr_html_())';
  const environment = { ...process.env, PYTHONPATH: join(root, 'python') };
  return execFileSync(python, ['-c', program, file], { env: environment, encoding: 'utf8', maxBuffer: 1 << 26 });
}

interface Notebook {
  name: string;
  /** The notebook's page around an output. */
  around: (output: string) => string;
}

const NOTEBOOKS: Notebook[] = [
  // JupyterLab and nbconvert put the output into their own document.
  { name: 'Jupyter', around: (output) => `<!doctype html><body><h3>In [1]:</h3>${output}</body>` },
  {
    // The output is in a frame of another origin, with the rights of this sandbox.
    name: 'Colab',
    around: (output) =>
      `<!doctype html><body><iframe sandbox="allow-scripts allow-downloads allow-forms allow-popups"
        style="width: 100%; height: 700px" srcdoc="${quoted(`<!doctype html><body>${output}</body>`)}"></iframe></body>`,
  },
  {
    // With `notebook.experimental.enableCsp`; without it, nothing is forbidden.
    name: 'VS Code',
    around: (output) =>
      `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none';
        script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src https: http: data:;
        font-src https:; connect-src https:; child-src https: data:"><body>${output}</body>`,
  },
];

/** Returns what the frame's code can reach of the notebook and the network. */
const reaches = (frame: Frame): Promise<string[]> =>
  frame.evaluate(async () => {
    const found: string[] = [];
    try {
      if (parent.document.body) found.push('the notebook');
    } catch {
      // Expected.
    }
    await fetch('https://localhost:9/').then(
      () => found.push('the network'),
      () => null,
    );
    return found;
  });

test.for(NOTEBOOKS)('in $name a recording shows what holds its peak', async ({ name, around }, { open, skip }) => {
  if (!existsSync(python)) skipping('python', `in ${name} a recording shows what holds its peak`, skip);
  const told = report(example('oom.pickle')).devices[0];
  const notebook = join(scratch(), 'notebook.html');
  writeFileSync(notebook, around(shown(example('oom.pickle'))));
  const page = await open(pathToFileURL(notebook).href, {
    draws: false,
    // The test itself makes the forbidden requests.
    expected: /Content Security Policy|localhost:9/,
  });
  await expect.poll(() => page.frames().length).toBe(name === 'Colab' ? 3 : 2);
  const frame = page.frames().at(-1)!;
  await drawn(frame);
  const card = frame.locator('.card', { hasText: 'Holders of the 6.23 GiB at the peak' });
  const [holder] = told.holders_at_peak;
  await expect.poll(() => card.getByRole('row').nth(1).innerText()).toContain(holder.count.toString());
  await frame.getByRole('tab', { name: 'Moment' }).click();
  await frame.locator(`.moment-view[data-total="${told.peak_allocated_bytes}"]`).waitFor();
  await frame.getByRole('button', { name: /^Save/ }).first().click();
  const { bytes } = await saved(page, () => frame.getByRole('menuitem').first().click());
  expect(bytes.length).toBeGreaterThan(100);
  expect(await reaches(frame)).toEqual([]);
});
