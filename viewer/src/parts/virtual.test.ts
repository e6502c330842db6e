import { expect, test } from 'vitest';
import { MAX_HEIGHT, isScaled, physicalHeight, reveal, rowsKept, rowsSeen, toPhysical, toVirtual } from './virtual';

const short = { count: 1000, rowHeight: 22, viewport: 440 };
const long = { count: 5_000_000, rowHeight: 22, viewport: 440 };

test('a short list scrolls pixel by pixel', () => {
  expect(isScaled(short)).toBe(false);
  expect(physicalHeight(short)).toBe(22_000);
  expect(toVirtual(short, 1234)).toBeCloseTo(1234);
  expect(toPhysical(short, 1234)).toBeCloseTo(1234);
});

test('a long list reaches both its ends', () => {
  expect(isScaled(long)).toBe(true);
  expect(physicalHeight(long)).toBe(MAX_HEIGHT);
  expect(toVirtual(long, 0)).toBe(0);
  const bottom = toVirtual(long, MAX_HEIGHT - 440);
  expect(rowsSeen(long, bottom, 0)).toEqual({ first: 5_000_000 - 20, last: 5_000_000 });
  expect(toVirtual(long, toPhysical(long, 77_777_777))).toBeCloseTo(77_777_777, 3);
});

test('visible rows cover the viewport and stay inside the list', () => {
  expect(rowsSeen(short, 33, 0)).toEqual({ first: 1, last: 22 });
  expect(rowsSeen(short, 0)).toEqual({ first: 0, last: 24 });
  expect(rowsSeen({ ...short, count: 3 }, 0)).toEqual({ first: 0, last: 3 });
  expect(rowsSeen({ ...short, count: 0 }, 0)).toEqual({ first: 0, last: 0 });
});

test('one row is kept, visible or not', () => {
  expect(rowsKept(3, 6, 4)).toEqual([3, 4, 5]);
  expect(rowsKept(3, 6, 0)).toEqual([0, 3, 4, 5]);
  expect(rowsKept(3, 6, 9)).toEqual([3, 4, 5, 9]);
  expect(rowsKept(0, 0, -1)).toEqual([]);
});

test('a row is revealed with the least scrolling, a distant one in the middle', () => {
  expect(reveal(short, 220, 15)).toBe(220);
  expect(reveal(short, 220, 9)).toBe(198);
  expect(reveal(short, 220, 30)).toBe(242);
  expect(reveal(short, 0, 500)).toBe(500 * 22 - 209);
  expect(reveal(short, 0, 999)).toBe(22_000 - 440);
});
