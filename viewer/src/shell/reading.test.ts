import { expect, test } from 'vitest';
import { progressText } from './reading';

test('the progress of reading names the file, and its size if it is known', () => {
  const progress = { name: 'run.pickle', bytes: 3 << 20, total: 12 << 20 };
  expect(progressText(progress)).toBe('run.pickle: 3.00 MiB of 12.00 MiB read');
  expect(progressText({ ...progress, total: null })).toBe('run.pickle: 3.00 MiB read');
});
