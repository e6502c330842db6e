import { expect, test } from 'vitest';
import { usesFacts } from './uses';

const none = { count: 0, first: null, last: null, first_us: null, last_us: null, longest_idle: null, longest_idle_us: null };

test('an allocation has its first and last use, and the longest interval between two uses', () => {
  expect(usesFacts(none)).toEqual([['uses', 'none']]);
  const once = { ...none, count: 1, first: 4, last: 4, first_us: 7, last_us: 7 };
  expect(usesFacts(once)).toEqual([
    ['uses', '1'],
    ['first use', 'after event 3, 7 us'],
    ['last use', 'after event 3, 7 us'],
  ]);
  const often = {
    ...once,
    count: 3,
    last: 1304,
    last_us: 2500,
    longest_idle: [104, 1304] as [number, number],
    longest_idle_us: 1500,
  };
  expect(usesFacts(often)).toEqual([
    ['uses', '3'],
    ['first use', 'after event 3, 7 us'],
    ['last use', 'after event 1,303, 2.5 ms'],
    ['longest idle', '1,200 events (1.5 ms), after event 103'],
  ]);
});
