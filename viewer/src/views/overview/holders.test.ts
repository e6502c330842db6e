import { expect, test } from 'vitest';
import type { Holder } from '../../source/generated/report';
import { holderText } from './holders';

const frame = { filename: '/home/me/train.py', line: 9, name: 'main' };
const holder = (over: Partial<Holder>): Holder => ({
  bytes: 1,
  requested_bytes: 1,
  count: 1,
  key: 'train.py:9 main',
  preexisting: false,
  stack: [],
  ...over,
});

test('a line that freed memory is not shown as its allocator', () => {
  expect(holderText(holder({ freed_at: [frame], preexisting: true }))).toBe('(live before recording, freed at) train.py:9 main');
  expect(holderText(holder({ preexisting: true, key: '(no stack)' }))).toBe('(live before recording) (no stack)');
  expect(holderText(holder({}))).toBe('train.py:9 main');
});
