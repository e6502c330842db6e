import { effect } from '@preact/signals';
import type { RefObject } from 'preact';
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { CanvasPen, type Draw } from '../draw/pen';

export interface CanvasProps {
  width: number;
  height: number;
  draw: Draw;
  class?: string;
  /** Called after each drawing. */
  drawn?: () => void;
  canvasRef?: RefObject<HTMLCanvasElement>;
}

/**
 * A canvas that is redrawn on each render, and whenever a signal changes that `draw` reads. It is hidden from screen readers, so its
 * content must also be available as text.
 */
export function Canvas({ width, height, draw, drawn, class: name, canvasRef }: CanvasProps) {
  const own = useRef<HTMLCanvasElement>(null);
  const ref = canvasRef ?? own;
  const [, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  // Draw before the browser paints, so that the canvas changes together with its surroundings.
  useLayoutEffect(() => {
    let isDrawn = false;
    return effect(() => {
      // A signal changed: render again, to draw only once with all other changes.
      if (isDrawn) return redraw(null);
      isDrawn = true;
      const canvas = ref.current;
      if (!canvas || width <= 0 || height <= 0) return;
      const scale = window.devicePixelRatio || 1;
      const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
      if (canvas.width !== w) canvas.width = w;
      if (canvas.height !== h) canvas.height = h;
      const context = canvas.getContext('2d')!;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      draw(new CanvasPen(context));
      drawn?.();
    });
  });
  return <canvas ref={ref} class={name} style={{ width: `${width}px`, height: `${height}px` }} aria-hidden="true" />;
}
