// A pen draws on a canvas or writes an SVG, so that one function draws the screen and the saved file.

import { FONTS, cssFont, fitEnd, fitText, type Font } from './text-width';

export interface TextStyle {
  color: string;
  align?: 'left' | 'right' | 'center';
  family?: Font['family'];
  size?: number;
  bold?: boolean;
  /** The text is cut to this many pixels, with an ellipsis. */
  room?: number;
  /** The kept part of a cut text. By default it is the beginning, or the end of a path. */
  keeps?: 'end';
}

export interface Pen {
  fill(x: number, y: number, width: number, height: number, color: string): void;
  /** Draws a rectangle's border inside the rectangle. */
  outline(x: number, y: number, width: number, height: number, color: string, thickness?: number): void;
  /** Fills a rectangle with diagonal lines. */
  hatch(x: number, y: number, width: number, height: number, color: string): void;
  path(points: readonly (readonly [number, number])[], color: string, thickness?: number): void;
  /** Draws text, vertically centered on `y`. */
  text(x: number, y: number, text: string, style: TextStyle): void;
  /** Draws with another pen whose origin is at this point. */
  moved(x: number, y: number, draw: Draw): void;
}

export type Draw = (pen: Pen) => void;

const HATCH = 6;

function fontOf(style: TextStyle): Font {
  return { family: style.family ?? 'sans', size: style.size ?? 12, bold: style.bold ?? false };
}

const cut = (text: string, style: TextStyle) => {
  if (style.room === undefined) return text;
  return (style.keeps === 'end' ? fitEnd : fitText)(text, fontOf(style), style.room);
};

export class CanvasPen implements Pen {
  private hatches = new Map<string, CanvasPattern>();

  constructor(private readonly context: CanvasRenderingContext2D) {
    context.textBaseline = 'middle';
    context.lineJoin = 'round';
  }

  fill(x: number, y: number, width: number, height: number, color: string): void {
    this.context.fillStyle = color;
    this.context.fillRect(x, y, width, height);
  }

  outline(x: number, y: number, width: number, height: number, color: string, thickness = 1): void {
    this.context.strokeStyle = color;
    this.context.lineWidth = thickness;
    this.context.strokeRect(
      x + thickness / 2,
      y + thickness / 2,
      Math.max(width - thickness, 0.01),
      Math.max(height - thickness, 0.01),
    );
  }

  hatch(x: number, y: number, width: number, height: number, color: string): void {
    let pattern = this.hatches.get(color);
    if (!pattern) {
      const tile = document.createElement('canvas');
      tile.width = tile.height = HATCH;
      const c = tile.getContext('2d')!;
      c.strokeStyle = color;
      c.lineWidth = 1.5;
      c.beginPath();
      for (const at of [-HATCH, 0, HATCH]) {
        c.moveTo(at - 1, HATCH + 1);
        c.lineTo(at + HATCH + 1, -1);
      }
      c.stroke();
      this.hatches.set(color, (pattern = this.context.createPattern(tile, 'repeat')!));
    }
    this.context.fillStyle = pattern;
    this.context.fillRect(x, y, width, height);
  }

  path(points: readonly (readonly [number, number])[], color: string, thickness = 1): void {
    this.context.strokeStyle = color;
    this.context.lineWidth = thickness;
    this.context.beginPath();
    for (const [x, y] of points) this.context.lineTo(x, y);
    this.context.stroke();
  }

  moved(x: number, y: number, draw: Draw): void {
    this.context.save();
    this.context.translate(x, y);
    draw(this);
    this.context.restore();
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const shown = cut(text, style);
    if (!shown) return;
    this.context.font = cssFont(fontOf(style));
    this.context.textAlign = style.align ?? 'left';
    this.context.fillStyle = style.color;
    this.context.fillText(shown, x, y);
  }
}

export class SvgPen implements Pen {
  private parts: string[] = [];
  private hatches = new Map<string, string>();

  fill(x: number, y: number, width: number, height: number, color: string): void {
    this.parts.push(`<rect ${box(x, y, width, height)} fill="${escapeXml(color)}"/>`);
  }

  outline(x: number, y: number, width: number, height: number, color: string, thickness = 1): void {
    const t = thickness;
    const inner = box(x + t / 2, y + t / 2, Math.max(width - t, 0), Math.max(height - t, 0));
    this.parts.push(`<rect ${inner} fill="none" stroke="${escapeXml(color)}" stroke-width="${t}"/>`);
  }

  hatch(x: number, y: number, width: number, height: number, color: string): void {
    let id = this.hatches.get(color);
    if (!id) this.hatches.set(color, (id = `hatch${this.hatches.size}`));
    this.parts.push(`<rect ${box(x, y, width, height)} fill="url(#${id})"/>`);
  }

  path(points: readonly (readonly [number, number])[], color: string, thickness = 1): void {
    const all = points.map(([x, y]) => `${short(x)},${short(y)}`).join(' ');
    this.parts.push(
      `<polyline points="${all}" fill="none" stroke="${escapeXml(color)}" stroke-width="${thickness}" stroke-linejoin="round"/>`,
    );
  }

  text(x: number, y: number, text: string, style: TextStyle): void {
    const shown = cut(text, style);
    if (!shown) return;
    const font = fontOf(style);
    const anchor = { left: 'start', center: 'middle', right: 'end' }[style.align ?? 'left'];
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" dominant-baseline="central" text-anchor="${anchor}" fill="${escapeXml(style.color)}"` +
        ` font-family="${escapeXml(FONTS[font.family])}" font-size="${font.size}"${font.bold ? ' font-weight="600"' : ''}>${escapeXml(shown)}</text>`,
    );
  }

  moved(x: number, y: number, draw: Draw): void {
    this.parts.push(`<g transform="translate(${short(x)} ${short(y)})">`);
    draw(this);
    this.parts.push('</g>');
  }

  document(width: number, height: number): string {
    const hatches = [...this.hatches].map(
      ([color, id]) =>
        `<pattern id="${id}" width="${HATCH}" height="${HATCH}" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
        `<rect width="1.5" height="${HATCH}" fill="${escapeXml(color)}"/></pattern>`,
    );
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}">` +
      `<defs>${hatches.join('')}</defs>${this.parts.join('\n')}</svg>\n`
    );
  }
}

const short = (n: number) => String(Math.round(n * 100) / 100);
const box = (x: number, y: number, w: number, h: number) =>
  `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"`;

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' };

/** Escapes text for XML. Most control characters are not allowed in XML, even escaped, and are replaced. */
export function escapeXml(text: string): string {
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd').replace(/[&<>"']/g, (c) => ENTITIES[c] ?? '');
}
