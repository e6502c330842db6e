// Measures drawn text as a sum of cached character widths.

import { labelParts } from '../text/labels';

export const FONTS = {
  sans: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif",
  mono: "ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace",
} as const;

export interface Font {
  family: keyof typeof FONTS;
  size: number;
  bold: boolean;
}

export const cssFont = (f: Font) => `${f.bold ? '600 ' : ''}${f.size}px ${FONTS[f.family]}`;

const widths = new Map<string, Map<string, number>>();
let context: CanvasRenderingContext2D | null = null;

function charWidth(char: string, font: string): number {
  let known = widths.get(font);
  if (!known) widths.set(font, (known = new Map()));
  let width = known.get(char);
  if (width === undefined) {
    context ??= document.createElement('canvas').getContext('2d')!;
    context.font = font;
    known.set(char, (width = context.measureText(char).width));
  }
  return width;
}

/** Returns the longest end of a text that is at most `room` pixels wide. */
function endWithin(text: string, css: string, room: number): string {
  const chars = [...text];
  let from = chars.length;
  for (let left = room; from > 0; from -= 1) {
    left -= charWidth(chars[from - 1] ?? '', css);
    if (left < 0) break;
  }
  return chars.slice(from).join('');
}

/** Cuts the beginning of `text` with an ellipsis to at most `room` pixels; returns an empty text if not even three characters fit. */
export function fitEnd(text: string, font: Font, room: number): string {
  if (textWidth(text, font) <= room) return text;
  const css = cssFont(font);
  const end = endWithin(text, css, room - charWidth('…', css));
  return [...end].length >= 2 ? `…${end}` : '';
}

/**
 * Cuts `text` with an ellipsis to at most `room` pixels; a path in it is cut at its beginning. Returns an empty text if not even three
 * characters fit.
 */
export function fitText(text: string, font: Font, room: number): string {
  const css = cssFont(font);
  const dots = charWidth('…', css);
  if (textWidth(text, font) <= room) return text;
  const { before, path, name } = labelParts(text);
  if (path !== '') {
    const left = room - dots - textWidth(before + name, font);
    return left < 0 ? fitText(before + name, font, room) : `${before}…${endWithin(path, css, left)}${name}`;
  }
  let width = 0;
  let fits = '';
  for (const char of text) {
    width += charWidth(char, css);
    if (width > room) return fits.length >= 2 ? `${fits}…` : '';
    if (width + dots <= room) fits += char;
  }
  return text;
}

export function textWidth(text: string, font: Font): number {
  const css = cssFont(font);
  let width = 0;
  for (const char of text) width += charWidth(char, css);
  return width;
}
