import { expect, test } from 'vitest';
import { itemsOf } from './items';
import { paintsOf } from './paints';

test('edges are darker than their items; memory live before recording is hatched', () => {
  const of = Uint32Array.of(0, 7);
  const items = itemsOf({ address: Float64Array.of(0, 512), bytes: Float64Array.of(512, 512), from: of, stack: of, tags: of });
  const { fill, edge, hatched } = paintsOf(items, Uint32Array.of(0x336699, 0xffffff), true, (i) => (i === 0 ? 0.5 : 0));
  expect([...fill].map((c) => c.toString(16))).toEqual(['ff996633', 'ffffffff']);
  expect([...edge].map((c) => c.toString(16))).toEqual(['ff4d331a', 'ffffffff']);
  expect([...hatched]).toEqual([1, 0]);
});
