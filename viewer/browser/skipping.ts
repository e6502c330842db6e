// Skips a test that cannot run here. ./test counts skips, and in continuous integration unexpected ones fail, as in
// crates/vramscope-testing.

import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const list = join(import.meta.dirname, '../../.ci/may-skip');

/** Skips `test` because `need`, a word of .ci/may-skip, is missing. */
export function skipping(need: string, test: string, skip: (why: string) => void): void {
  const { VRAMSCOPE_SKIPS, VRAMSCOPE_MAY_SKIP = '', CI } = process.env;
  if (VRAMSCOPE_SKIPS) appendFileSync(VRAMSCOPE_SKIPS, `${need} ${test}\n`);
  const listed = readFileSync(list, 'utf8')
    .split('\n')
    .map((line) => line.trim());
  if (CI && !listed.includes(need) && !VRAMSCOPE_MAY_SKIP.split(/\s+/).includes(need)) {
    throw new Error(`cannot run, ${need} is missing; if this is intended, add it to .ci/may-skip or VRAMSCOPE_MAY_SKIP`);
  }
  skip(`${need} is missing`);
}
