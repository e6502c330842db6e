import { expect, test } from 'vitest';
import { bytes, duration, share, signedBytes } from './units';

// The same numbers and texts are in the tests of `vramscope_basics::units`.
test.each([
  [1152, '1.12 KiB'],
  [1408, '1.38 KiB'],
  [1664, '1.62 KiB'],
  [1_048_576 + 131_072, '1.12 MiB'],
  [1023, '1023 B'],
  [1_048_575, '1.00 MiB'],
])('%d bytes', (n, text) => {
  expect(bytes(n)).toBe(text);
  expect(signedBytes(n)).toBe(`+${text}`);
  expect(signedBytes(-n)).toBe(`-${text}`);
});

test.each([
  [1, 400, '0.2%'],
  [3, 400, '0.8%'],
  [1, 3, '33.3%'],
  [2, 3, '66.7%'],
  [1, 0, '-'],
])('%d of %d', (part, whole, text) => expect(share(part, whole)).toBe(text));

test.each([
  [4, '4 us'],
  [1250, '1.2 ms'],
  [1_750_000, '1.8 s'],
  [125e6, '2 min 5 s'],
  [11_100e6, '3 h 5 min'],
  [187_200e6, '2 days 4 h'],
])('%d us', (us, text) => expect(duration(us)).toBe(text));
