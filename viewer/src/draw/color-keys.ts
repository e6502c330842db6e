// Colors of items: a hue number per item, and a color per hue. A group's hue is a hash of its name, so the group has the same color in
// every view and every recording (`Groups` in source/).

import { NO_STACK, framesOf, ownFrame } from '../names/stacks';
import { numberAt } from '../numbers/at';
import { firstThat } from '../numbers/bisect';
import { CATEGORIES, NONE, type Category, type Groups, type Items, type Names, type Steps, type Tables } from '../source/source';
import type { ColorBy } from '../state/grouping';
import { categoryColor, groupColor, sizeColor, unknownColor, type Rgb } from '../style/colors';
import { shadesOf } from './shades';

/** One way to color items. The hue of unknown groups is 0. */
export interface ColorKeys {
  hueOf(items: Items, item: number): number;
  color(hue: number): Rgb;
}

/** Returns a short title of a stack: its innermost non-native frame, and the frame that names it. */
export function stackTitle(names: Names, stack: number): string {
  const inner = framesOf(names, stack).find((frame) => names.code[frame] !== 'native');
  const own = ownFrame(names, stack);
  const shown = [inner, own].filter((frame, i, both) => frame !== undefined && frame !== NONE && both.indexOf(frame) === i);
  return shown.map((frame) => names.label[frame!]).join(' ‹ ') || NO_STACK;
}

/** Returns the category of a hue when coloring by category, or null. */
export const categoryOf = (hue: number): Category | null => CATEGORIES[hue - 1] ?? null;

/** Returns the hue of the step that allocated the memory live from this moment on. */
function stepHue({ from }: Steps, moment: number): number {
  return moment === 0 ? 0 : firstThat(0, from.length, (step) => numberAt(from, step) >= moment);
}

/** Returns the hue of each item, using the tables of the groups. */
function huesBy(by: ColorBy, { purposes }: Tables, steps: Steps | null, groups: Groups | undefined): ColorKeys['hueOf'] {
  switch (by) {
    case 'category': {
      const hues = purposes?.map(({ category }) => CATEGORIES.indexOf(category) + 1) ?? [];
      return (items, item) => hues[items.purpose[item] ?? NONE] ?? 0;
    }
    case 'step':
      return (items, item) => (steps ? stepHue(steps, numberAt(items.from, item)) : 0);
    case 'size':
      return (items, item) => Math.floor(Math.log2(Math.max(numberAt(items.size, item), 1))) + 1;
    case 'allocation':
      return (items, item) => numberAt(items.id, item) + 1;
    case 'pool':
    case 'stream':
    case 'layer':
      return (items, item) => groups?.hue[groups.tags[numberAt(items.tags, item)] ?? NONE] ?? 0;
    default: {
      if (!groups) return () => 0;
      const { stack, hue, no_stack } = groups;
      return (items, item) => hue[stack[numberAt(items.stack, item)] ?? no_stack] ?? 0;
    }
  }
}

/** Returns the color of each hue. `all` holds the groups of the compared devices; their largest groups get distinct colors. */
export function colorsBy(by: ColorBy, all: Iterable<Groups>, dark: boolean): ColorKeys['color'] {
  const known = new Map<number, Rgb>([[0, unknownColor(dark)]]);
  const shades = shadesOf(all);
  const make = (hue: number): Rgb => {
    if (by === 'category') return categoryColor(categoryOf(hue), dark);
    if (by === 'size') return sizeColor(2 ** (hue - 1), dark);
    return groupColor(shades.get(hue) ?? hue, by !== 'step' && by !== 'allocation' && !shades.has(hue), dark);
  };
  return (hue) => {
    let color = known.get(hue);
    if (color === undefined) known.set(hue, (color = make(hue)));
    return color;
  };
}

/** Returns how the items of a device are colored. */
export function colorKeysBy(
  by: ColorBy,
  tables: Tables & { steps: Steps | null },
  scope: string,
  groups: ReadonlyMap<string, Groups> | undefined,
  dark: boolean,
): ColorKeys {
  return {
    hueOf: huesBy(by, tables, tables.steps, groups?.get(scope)),
    color: colorsBy(by, groups?.values() ?? [], dark),
  };
}
