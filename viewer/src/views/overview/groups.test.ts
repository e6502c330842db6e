import { expect, test } from 'vitest';
import { highestOfGroups } from './groups';

test('the highest of each group, the first of equal ones', () => {
  expect(highestOfGroups([], 3)).toEqual([]);
  expect(highestOfGroups([5, 1, 1], 3)).toEqual([0, 1, 2]);
  expect(highestOfGroups([1, 2, 2, 0, 0, 9, 4], 3)).toEqual([1, 2, 5]);
});

test('each position is in one group', () => {
  const rising = Array.from({ length: 1000 }, (_, i) => i);
  const highest = highestOfGroups(rising, 160);
  expect(highest).toHaveLength(160);
  // The highest value of a rising group is its last.
  expect(highest.at(-1)).toBe(999);
  const lengths = highest.map((at, i) => at - (highest[i - 1] ?? -1));
  expect([Math.min(...lengths), Math.max(...lengths)]).toEqual([6, 7]);
});
