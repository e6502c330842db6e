// The keys by which items are coloured: a number for each item, and the label and colour of each key.

import { NO_STACK, framesOf, ownFrame } from '../names/stacks';
import { categoryText, poolName, streamName } from '../names/tags';
import { entryAt, numberAt } from '../numbers/at';
import { CATEGORIES, NONE, type Category, type Items, type Names, type Tables, type Tags } from '../source/source';
import type { ColorBy } from '../state/grouping';
import { categoryColor, poolColor, sizeColor, stackColor, streamColor, type Rgb } from '../style/colors';
import { byteLabel } from './ticks';

/** One way to colour items. */
export interface ColorKeys {
  keyOf(items: Items, item: number): number;
  label(key: number): string;
  color(key: number): Rgb;
}

/** The same function, which computes each value once. */
function remembered<T>(make: (key: number) => T): (key: number) => T {
  const known = new Map<number, T>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) known.set(key, (value = make(key)));
    return value;
  };
}

/** Keys that are positions in `tags`. Of tags with the same text the first is the key of all. */
function byTags(tags: readonly Tags[], text: (tags: Tags) => string, color: (tags: Tags) => Rgb): ColorKeys {
  const first = new Map<string, number>();
  const keys = tags.map((one, i) => {
    const read = text(one);
    if (!first.has(read)) first.set(read, i);
    return first.get(read)!;
  });
  return {
    keyOf: (items, item) => entryAt(keys, numberAt(items.tags, item)),
    label: (key) => text(entryAt(tags, key)),
    color: remembered((key) => color(entryAt(tags, key))),
  };
}

/** A short title of a stack: its innermost frame that is not native, and the frame that names it. */
export function stackTitle(names: Names, stack: number): string {
  const inner = framesOf(names, stack).find((frame) => names.code[frame] !== 'native');
  const own = ownFrame(names, stack);
  const shown = [inner, own].filter((frame, i, both) => frame !== undefined && frame !== NONE && both.indexOf(frame) === i);
  return shown.map((frame) => names.label[frame!]).join(' ‹ ') || NO_STACK;
}

/** The category that a key stands for when colours stand for categories; null of what has none. */
export const categoryOf = (key: number): Category | null => CATEGORIES[key] ?? null;

/** Keys that are positions in `CATEGORIES`; `NONE` where an item has none, or it is not known yet. */
function byCategory(purposes: Tables['purposes'], dark: boolean): ColorKeys {
  const keys = purposes?.map(({ category }) => CATEGORIES.indexOf(category)) ?? [];
  return {
    keyOf: (items, item) => keys[items.purpose[item] ?? NONE] ?? NONE,
    label: (key) => categoryText(categoryOf(key)),
    color: remembered((key) => categoryColor(categoryOf(key), dark)),
  };
}

/** The keys for a choice of what colours stand for. Names of frames may still be missing: they are read later than pictures. */
export function colorKeysBy(by: ColorBy, names: Names | undefined, { tags, purposes }: Tables, dark: boolean): ColorKeys {
  switch (by) {
    case 'stack':
      return {
        keyOf: (items, item) => numberAt(items.stack, item),
        label: (key) => (names ? stackTitle(names, key) : NO_STACK),
        color: remembered((key) => stackColor(names, key, dark)),
      };
    case 'size':
      return {
        keyOf: (items, item) => Math.floor(Math.log2(Math.max(numberAt(items.size, item), 1))),
        label: (key) => `${byteLabel(2 ** key, 1)} to ${byteLabel(2 ** (key + 1), 1)}`,
        color: remembered((key) => sizeColor(2 ** key, dark)),
      };
    case 'category':
      return byCategory(purposes, dark);
    case 'stream':
      return byTags(
        tags,
        (t) => streamName(t.stream),
        (t) => streamColor(t.stream, dark),
      );
    case 'pool':
      return byTags(
        tags,
        (t) => poolName(t.pool),
        (t) => poolColor(t.pool, dark),
      );
  }
}

export interface Share {
  key: number;
  /** The key's part of the pixels that show anything, from 0 to 1. */
  share: number;
}

/** The keys that cover most of a picture, the largest first; `area` is the number of pixels of each item. */
export function largest(keys: ColorKeys, items: Items, area: Float64Array, most: number): Share[] {
  const covered = new Map<number, number>();
  let total = 0;
  area.forEach((pixels, item) => {
    if (pixels === 0) return;
    const key = keys.keyOf(items, item);
    covered.set(key, (covered.get(key) ?? 0) + pixels);
    total += pixels;
  });
  return [...covered]
    .sort((a, b) => b[1] - a[1])
    .slice(0, most)
    .map(([key, pixels]) => ({ key, share: pixels / total }));
}
