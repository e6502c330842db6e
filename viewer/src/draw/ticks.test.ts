import { describe, expect, test } from 'vitest';
import { byteTicks, eventTicks, timeTicks } from './ticks';

const labels = (ticks: { label: string }[]) => ticks.map((t) => t.label);
const G = 2 ** 30;

describe('bytes', () => {
  test('powers of two', () => expect(labels(byteTicks(0, 8.2 * G, 5))).toEqual(['0 B', '2 GiB', '4 GiB', '6 GiB', '8 GiB']));
  test('mixed units', () => {
    expect(labels(byteTicks(0, 1.6 * G, 4))).toEqual(['0 B', '512 MiB', '1 GiB', '1.5 GiB']);
  });
  test('far from zero', () => {
    expect(labels(byteTicks(7 * G + 100, 7 * G + 4000, 4))).toEqual(['7,340,033 KiB', '7,340,034 KiB', '7,340,035 KiB']);
  });
  test('never below a byte', () => expect(byteTicks(0, 3, 100)).toHaveLength(4));
  test('nothing', () => expect(byteTicks(0, 0, 5)).toEqual([]));
});

describe('counts', () => {
  test('decimal', () =>
    expect(labels(eventTicks(0, 699_174, 7))).toEqual(['0', '100,000', '200,000', '300,000', '400,000', '500,000', '600,000']));
  test('never below one', () => expect(labels(eventTicks(10.2, 13.8, 50))).toEqual(['10', '11', '12']));
});

describe('times', () => {
  test('seconds', () => expect(labels(timeTicks(0, 2.1e6, 5))).toEqual(['0 s', '500 ms', '1.0 s', '1.5 s', '2.0 s']));
  test('deep in', () => expect(labels(timeTicks(12_345_600, 12_345_799, 2))).toEqual(['12.3456 s', '12.3457 s']));
  test('minutes', () => expect(labels(timeTicks(0, 300e6, 5))).toEqual(['0 s', '1 min', '2 min', '3 min', '4 min', '5 min']));
  test('hours', () => expect(labels(timeTicks(3500e6, 8000e6, 3)).at(-1)).toBe('2 h 00'));
});
