// Saves drawings as PNG and SVG.

import { CanvasPen, SvgPen, type Draw } from '../draw/pen';
import type { SaveItem } from './files';

/** The longest side of a PNG in pixels; some browsers fail on larger canvases. */
const LARGEST_SIDE = 16_000;

export function toPng(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the picture is too large'))), 'image/png'),
  );
}

export interface Drawing {
  width: number;
  height: number;
  ground: string;
  draw: Draw;
}

function drawingPng({ width, height, ground, draw }: Drawing): Promise<Blob> {
  const scale = Math.min(2, LARGEST_SIDE / Math.max(width, height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  const pen = new CanvasPen(context);
  pen.fill(0, 0, width, height, ground);
  draw(pen);
  return toPng(canvas);
}

function drawingSvg({ width, height, ground, draw }: Drawing): Blob {
  const pen = new SvgPen();
  pen.fill(0, 0, width, height, ground);
  draw(pen);
  return new Blob([pen.document(width, height)], { type: 'image/svg+xml' });
}

/** Menu items that save a drawing, including the parts scrolled out of view. The drawing is created when an item is chosen. */
export function drawingItems(make: () => Drawing): SaveItem[] {
  return [
    { label: 'Picture as PNG', extension: 'png', make: () => drawingPng(make()) },
    { label: 'Picture as SVG', extension: 'svg', make: () => drawingSvg(make()) },
  ];
}
