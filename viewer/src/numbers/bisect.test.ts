import { expect, test } from 'vitest';
import { firstThat } from './bisect';

test('the first number that is not below', () => {
  const rising = [1, 3, 3, 7];
  const notBelow = (value: number) => firstThat(0, rising.length, (i) => (rising[i] ?? NaN) >= value);
  expect([0, 3, 4, 7, 8].map(notBelow)).toEqual([0, 1, 3, 3, 4]);
  expect(firstThat(2, 4, () => true)).toBe(2);
  expect(firstThat(2, 2, () => true)).toBe(2);
});
