// Colors of allocations. The same key has the same color in every view, window and recording.
//
// People with red-green blindness can distinguish the palette's hues, and neighbors in it also differ in lightness, so that hue is never
// the only difference. A color is a number, 0xRRGGBB.

import { entryAt } from '../numbers/at';
import type { Category } from '../source/source';

export type Rgb = number;

/** Formats a color as CSS. */
export const css = (color: Rgb): string => `#${color.toString(16).padStart(6, '0')}`;

/** Converts a color to a canvas pixel, a 32-bit number on a little-endian machine: 0xAABBGGRR. */
export const abgr = (color: Rgb, alpha = 255): number =>
  ((alpha << 24) | ((color & 0xff) << 16) | (color & 0xff00) | (color >>> 16)) >>> 0;

/** Mixes two colors: `share` 0 is `a`, 1 is `b`. */
export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const part = (shift: number) => {
    const from = (a >>> shift) & 0xff;
    return Math.round(from + (((b >>> shift) & 0xff) - from) * share) << shift;
  };
  return part(16) | part(8) | part(0);
}

/** The share of background in the colors of items that a search does not match. */
export const FADED = 0.86;

/** Parses a computed style, `rgb(1, 2, 3)`, or `#rrggbb`. */
export function parse(text: string): Rgb {
  if (text.startsWith('#')) return parseInt(text.slice(1, 7), 16);
  const [r, g, b] = (text.match(/[\d.]+/g) ?? []).map((n) => Math.round(Number(n)));
  return ((r ?? 0) << 16) | ((g ?? 0) << 8) | (b ?? 0);
}

/** Converts Oklch (hue in degrees) to sRGB; equal lightness looks equally light. */
export function oklch(lightness: number, chroma: number, hue: number): Rgb {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const channel = (linear: number) => {
    const x = linear <= 0.0031308 ? 12.92 * linear : 1.055 * Math.max(linear, 0) ** (1 / 2.4) - 0.055;
    return Math.round(Math.min(Math.max(x, 0), 1) * 255);
  };
  const red = channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
  const green = channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
  const blue = channel(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s);
  return (red << 16) | (green << 8) | blue;
}

/** Converts a color to Oklab, where distances match perception: lightness, and two axes of hue. */
export function oklab(color: Rgb): readonly [number, number, number] {
  const [r, g, b] = [16, 8, 0].map((shift) => {
    const x = ((color >>> shift) & 255) / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** Returns the color, lighter by `lift`, or darker if negative. */
export function lifted(color: Rgb, lift: number): Rgb {
  const [lightness, a, b] = oklab(color);
  return oklch(Math.min(Math.max(lightness + lift, 0.2), 0.95), Math.hypot(a, b), (Math.atan2(b, a) * 180) / Math.PI);
}

/** Oklch colors of groups on a light background, found by search: distinguishable under any kind of color blindness. */
const PALETTE: readonly (readonly [hue: number, lightness: number, chroma: number])[] = [
  [65, 0.5, 0.095],
  [191, 0.701, 0.111],
  [76, 0.675, 0.13],
  [108, 0.562, 0.109],
  [327, 0.573, 0.14],
  [296, 0.694, 0.14],
  [341, 0.63, 0.06],
  [239, 0.64, 0.095],
  [165, 0.572, 0.108],
  [299, 0.5, 0.14],
  [221, 0.5, 0.061],
  [50, 0.814, 0.101],
  [5, 0.5, 0.139],
  [18, 0.729, 0.136],
  [114, 0.751, 0.14],
  [97, 0.84, 0.14],
  [292, 0.84, 0.087],
  [262, 0.767, 0.115],
  [166, 0.796, 0.14],
  [138, 0.674, 0.104],
  [328, 0.76, 0.109],
  [193, 0.84, 0.06],
  [283, 0.595, 0.14],
  [24, 0.605, 0.14],
];

/** The number of distinct group colors. */
export const SHADES = PALETTE.length;

/** How much lightness colors lose on a dark background. */
const DARKER = 0.06;

/** Returns a palette color by number; `turn` changes its hue in degrees, `lift` its lightness. */
function swatch(index: number, dark: boolean, turn = 0, lift = 0): Rgb {
  const [hue, lightness, chroma] = entryAt(PALETTE, index % PALETTE.length);
  return oklch(lightness + lift - (dark ? DARKER : 0), chroma, hue + turn);
}

/** The gray for missing keys: no stack, no category, no recorded pool. */
export const unknownColor = (dark: boolean): Rgb => oklch(dark ? 0.5 : 0.75, 0.008, 260);

/** FNV-1a with MurmurHash3's final mixing, so that the low bits vary as much as the high ones. */
function hash(text: string, seed = 0x811c9dc5): number {
  let h = seed;
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Returns a color for a hash: a palette color with small changes in hue and lightness, so that keys that share it still differ. */
function hashed(h: number, dark: boolean): Rgb {
  const turn = (((h >>> 8) & 0xff) / 255 - 0.5) * 20;
  const lift = (((h >>> 16) & 0xff) / 255 - 0.5) * 0.1;
  return swatch(h % PALETTE.length, dark, turn, lift);
}

/** Returns the color of a text: a line, a function, a file. */
export const textColor = (text: string, dark: boolean): Rgb => hashed(hash(text), dark);

/**
 * Returns a group's color: the palette color of its number. With `varies`, the rest of the number changes lightness and hue a little, so
 * that not all of many groups look like one of the few with exclusive palette colors.
 */
export const groupColor = (number: number, varies: boolean, dark: boolean): Rgb =>
  varies ? hashed(number, dark) : swatch(number, dark);

/** Returns the color of a size: one per power of two, from pale at 512 B to deep at 8 GiB. */
export function sizeColor(bytes: number, dark: boolean): Rgb {
  const step = Math.min(Math.max((Math.floor(Math.log2(Math.max(bytes, 1))) - 9) / 24, 0), 1);
  return dark
    ? oklch(0.36 + 0.5 * step, 0.06 + 0.06 * step, 265 - 175 * step)
    : oklch(0.9 - 0.5 * step, 0.06 + 0.07 * step, 100 + 175 * step);
}

/**
 * Oklch colors of categories on a light background. Under any kind of color blindness, they are distinguishable from each other and from
 * the line of reserved bytes, most clearly those that hold most memory in a training step.
 */
const CATEGORY_COLORS: Record<Category, readonly [hue: number, lightness: number, chroma: number]> = {
  parameter: [231, 0.812, 0.104],
  buffer: [210, 0.72, 0.084],
  gradient: [82, 0.805, 0.16],
  optimizer_state: [267, 0.567, 0.159],
  activation: [127, 0.659, 0.1],
  input: [35, 0.57, 0.127],
  temporary: [333, 0.52, 0.132],
  communication: [222, 0.636, 0.1],
  kv_cache: [304, 0.747, 0.16],
  workspace: [145, 0.756, 0.092],
  preexisting: [260, 0.56, 0.008],
  unknown: [260, 0.81, 0.008],
};

/** Returns the color of a category; gray for null. */
export function categoryColor(category: Category | null, dark: boolean): Rgb {
  if (category === null) return unknownColor(dark);
  const [hue, lightness, chroma] = CATEGORY_COLORS[category];
  return oklch(lightness - (dark ? DARKER : 0), chroma, hue);
}
