import { beforeEach, expect, test, vi } from 'vitest';
import type { Device, Items, Recording } from '../source/source';
import { chosenColor } from '../state/grouping';
import { recordings } from '../state/recordings';
import { stacked } from '../state/window';
import { coloredBy } from './item-colors';

// The theme asks the browser for the user's preference.
vi.hoisted(() => vi.stubGlobal('window', { matchMedia: () => ({ matches: false, addEventListener: () => {} }) }));

const items = (purpose: number[]) => ({ id: Uint32Array.of(0, 1), purpose: Uint8Array.from(purpose) }) as Items;
const [before, told] = [items([]), items([0, 0])];
const open = (purposes: Device['purposes']) => {
  recordings.value = [
    { devices: [{ tags: [], purposes, peaks: { allocated: { moment: 0 } } } as unknown as Device] } as Recording,
  ];
};

beforeEach(() => {
  chosenColor.value = null;
  stacked.value = 'allocated';
});

test('a picture from before categories were known keeps the colors of stacks', () => {
  open(null);
  expect(coloredBy(before)).toBe('stack');
  open([{ category: 'gradient', because: '' }]);
  expect([coloredBy(before), coloredBy(told)]).toEqual(['stack', 'category']);
  stacked.value = 'reserved';
  expect([coloredBy(before), coloredBy(told)]).toEqual(['stack', 'stack']);
});

test('an explicit choice applies to every picture', () => {
  open([{ category: 'gradient', because: '' }]);
  for (const by of ['category', 'size'] as const) {
    chosenColor.value = by;
    expect([coloredBy(before), coloredBy(told)]).toEqual([by, by]);
  }
});
