import { expect, test } from 'vitest';
import { atOf, bytesOf, clamped, panned, xOf, yOf, zoomed, type Viewport } from './scale';

const viewport: Viewport = { from: 100, to: 300, low: 0, high: 1000, width: 400, height: 200 };

test('conversion there and back', () => {
  expect(xOf(viewport, 150)).toBe(100);
  expect(atOf(viewport, 100)).toBe(150);
  expect(yOf(viewport, 250)).toBe(150);
  expect(bytesOf(viewport, 150)).toBe(250);
});

test('a range keeps its width at the ends', () => {
  expect(clamped([-50, 50], [0, 1000])).toEqual([0, 100]);
  expect(panned([900, 1000], [0, 1000], 70)).toEqual([900, 1000]);
  expect(clamped([-50, 5000], [0, 1000])).toEqual([0, 1000]);
});

test('zooming keeps the position', () => {
  const [from, to] = zoomed([0, 1000], [0, 1000], 0.5, 250, 4);
  expect([from, to]).toEqual([125, 625]);
  expect(zoomed([10, 14], [0, 1000], 0.1, 12, 4)).toEqual([10, 14]);
  expect(zoomed([100, 900], [0, 1000], 10, 500, 4)).toEqual([0, 1000]);
});
