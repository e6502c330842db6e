import { expect, test } from 'vitest';
import { edges } from './outline';

const text = (rows: number[][]) => edges(Uint16Array.from(rows.flat())).map((e) => `${e.left},${e.bottom} ${e.right},${e.top}`);

test('an item in the middle', () => {
  expect(
    text([
      [0, 0],
      [2, 5],
      [2, 5],
      [0, 0],
    ]),
  ).toEqual(['1,2 1,5', '1,2 3,2', '1,5 3,5', '3,2 3,5']);
});

test('a sinking item', () => {
  expect(
    text([
      [2, 5],
      [1, 4],
    ]),
  ).toEqual(['0,2 1,2', '0,5 1,5', '1,1 1,2', '1,4 1,5', '1,1 2,1', '1,4 2,4']);
});

test('an item that sinks below its former bottom', () => {
  expect(
    text([
      [4, 5],
      [1, 2],
    ]),
  ).toEqual(['0,4 1,4', '0,5 1,5', '1,4 1,5', '1,1 1,2', '1,1 2,1', '1,2 2,2']);
});

test('an absent item', () =>
  expect(
    text([
      [0, 0],
      [0, 0],
    ]),
  ).toEqual([]));
