import { expect, test } from 'vitest';
import { fileName, stem } from './files';

test('file names come from the recording, without its path and extensions', () => {
  expect(stem('/data/gpt2-torch2.11.pickle.zst')).toBe('gpt2-torch2.11');
  expect(stem('C:\\runs\\run 1.json')).toBe('run-1');
  expect(stem('../../etc/passwd')).toBe('passwd');
  expect(stem('.pickle')).toBe('recording');
  expect(fileName('gpt2.pickle', 'moment-12345', 'csv')).toBe('gpt2-moment-12345.csv');
});
