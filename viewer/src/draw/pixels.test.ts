import { expect, test } from 'vitest';
import { NONE, type Picture } from '../source/source';
import { areas, itemAt, linesOf, momentAt, overlayValues, placeOf, rowsBeforeRecording, rowsOf } from './hit';
import { paintLine, paintStack, steps } from './paint';
import { rectangles } from './rectangles';

// Four pixels wide, six high, and three distinct columns: item 0 (4 rows) with item 1 (2 rows) on it, a gap, nothing.
const picture: Picture = {
  window: {
    stacked: 'allocated',
    axis: 'events',
    from: 0,
    to: 8,
    width: 4,
    height: 6,
    low: 0,
    high: 6,
    fit_reserved: false,
    only: null,
  },
  low: 0,
  high: 6,
  column: Uint32Array.of(0, 0, 1, 2),
  moment: Uint32Array.of(1, 4, 6),
  start: Uint32Array.of(0, 1, 3, 5),
  item: Uint32Array.of(0, 0, 1, NONE, 1),
  end: Uint16Array.of(4, 4, 6, 4, 6),
  items: {
    id: Uint32Array.of(10, 11),
    address: Float64Array.of(0, 4096),
    bytes: Float64Array.of(4, 2),
    size: Float64Array.of(4, 2),
    from: Uint32Array.of(0, 3),
    to: Uint32Array.of(6, NONE),
    stack: Uint32Array.of(0, 0),
    purpose: new Uint8Array(),
    tags: Uint32Array.of(0, 0),
  },
  highest: {
    requested: Float64Array.of(4, 4, 6, 2),
    allocated: Float64Array.of(4, 4, 6, 2),
    active: Float64Array.of(4, 4, 6, 2),
    reserved: Float64Array.of(5, 5, 5, 5),
  },
};
const rows = (pixels: Uint32Array) => Array.from({ length: 6 }, (_, y) => [...pixels.subarray(4 * y, 4 * y + 4)]);

test('runs become pixels, the bottom row last', () => {
  const pixels = new Uint32Array(24).fill(99);
  paintStack(pixels, picture, { fill: Uint32Array.of(1, 2), edge: Uint32Array.of(7, 8), hatched: new Uint8Array(2) });
  expect(rows(pixels)).toEqual([
    [0, 0, 2, 2],
    [0, 0, 2, 2],
    [7, 7, 7, 0],
    [1, 1, 1, 0],
    [1, 1, 1, 0],
    [1, 1, 1, 0],
  ]);
});

test('a line is clipped at the edges', () => {
  const pixels = new Uint32Array(24);
  const values = Float64Array.of(1, 1, 9, -9);
  paintLine(pixels, picture, { values, color: 5, thickness: 1, dashed: false });
  expect(rows(pixels)).toEqual([
    [0, 0, 5, 5],
    [0, 0, 5, 5],
    [0, 0, 5, 5],
    [0, 0, 5, 5],
    [5, 5, 5, 5],
    [0, 0, 0, 5],
  ]);
});

test('a line may have gaps', () => {
  const pixels = new Uint32Array(24);
  const values = Float64Array.of(1, NaN, 3, 4);
  paintLine(pixels, picture, { values, color: 5, thickness: 1, dashed: false, apart: true });
  expect(rows(pixels)).toEqual([
    [0, 0, 0, 0],
    [0, 0, 0, 5],
    [0, 0, 5, 0],
    [0, 0, 0, 0],
    [5, 0, 0, 0],
    [0, 0, 0, 0],
  ]);
});

test('hits', () => {
  expect([
    itemAt(picture, 0, 0),
    itemAt(picture, 0, 4),
    itemAt(picture, 2, 4),
    itemAt(picture, 3, 3),
    itemAt(picture, 3, 5),
  ]).toEqual([0, null, 1, null, 1]);
  expect(itemAt(picture, 4, 0)).toBeNull();
  expect([...rowsOf(picture, 1)]).toEqual([0, 0, 0, 0, 4, 6, 4, 6]);
  expect([...areas(picture)]).toEqual([12, 4]);
  expect(rowsBeforeRecording(picture)).toBe(4);
});

test('moments', () => {
  expect(momentAt(picture, 1)).toBe(1);
  expect(placeOf(picture, 3)).toBe(3.5);
  const inTime: Picture = { ...picture, window: { ...picture.window, axis: 'time', from: 0, to: 400 } };
  expect(placeOf(inTime, 4)).toBe(250);
  expect(placeOf(inTime, 7)).toBeNull();
});

test('an overlay keeps its peaks', () => {
  expect([
    ...overlayValues(
      picture,
      [
        [0, 3],
        [2, 9],
        [3, 4],
        [6, 1],
      ],
      0,
      7,
    ),
  ]).toEqual([3, 3, 9, 4]);
});

test('an overlay keeps peaks next to the moments of the first and the last pixel', () => {
  expect([
    ...overlayValues(
      picture,
      [
        [0, 7],
        [1, 2],
        [7, 8],
        [8, 9],
      ],
      0,
      7,
    ),
  ]).toEqual([7, 2, 2, 8]);
  expect([
    ...overlayValues(
      picture,
      [
        [0, 7],
        [1, 2],
        [7, 8],
      ],
      1,
      6,
    ),
  ]).toEqual([2, 2, 2, 2]);
});

test('a saved line has the steps and gaps of the painted line', () => {
  expect(steps(Float64Array.of(1, 1, 5, 5), false)).toEqual([
    [
      [0, 1],
      [2, 1],
      [2, 5],
      [4, 5],
    ],
  ]);
  expect(steps(Float64Array.of(1, 1, 5, 5), true)).toEqual([
    [
      [0, 1],
      [2, 1],
    ],
    [
      [2, 5],
      [4, 5],
    ],
  ]);
  expect(steps(Float64Array.of(1, NaN, NaN, 5), false)).toEqual([
    [
      [0, 1],
      [1, 1],
    ],
    [
      [3, 5],
      [4, 5],
    ],
  ]);
  expect(steps(Float64Array.of(NaN, NaN), false)).toEqual([]);
});

test('adjacent columns of an item become one rectangle', () => {
  expect(rectangles(picture)).toEqual([
    { item: 0, left: 0, right: 3, bottom: 0, top: 4 },
    { item: 1, left: 2, right: 4, bottom: 4, top: 6 },
  ]);
});

test('active bytes get a line where they exceed the stack', () => {
  const active = Float64Array.of(4, 8, 8, 2);
  const large: Picture = { ...picture, window: { ...picture.window, height: 60 }, highest: { ...picture.highest, active } };
  const [line, reserved] = linesOf(large);
  expect([...(line?.values ?? [])]).toEqual([NaN, 8, 8, NaN]);
  expect(reserved?.values).toBe(picture.highest.reserved);
  expect(linesOf({ ...large, window: { ...large.window, stacked: 'reserved' } }).map((l) => l.kind)).toEqual(['active']);
});
