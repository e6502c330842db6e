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
 * A canvas that is drawn whenever it is rendered, and whenever a signal changes that `draw` reads. Screen readers do not see it:
 * what it shows must stand in words elsewhere.
 */
export function Canvas({ width, height, draw, drawn, class: name, canvasRef }: CanvasProps) {
  const own = useRef<HTMLCanvasElement>(null);
  const ref = canvasRef ?? own;
  const [, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  // Drawn before the browser paints, so that the canvas changes together with what is around it.
  useLayoutEffect(() => {
    let isDrawn = false;
    return effect(() => {
      // A signal has changed: rendered again, and so drawn once together with everything else that changed.
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
