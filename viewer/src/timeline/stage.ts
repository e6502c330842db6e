// The canvases of the timeline. Pictures are requested and painted. Until the next one arrives, the last one is moved and stretched, so
// that it follows the pointer.

import { computed, effect, signal, untracked, type ReadonlySignal } from '@preact/signals';
import { geometryIn, type Geometry } from '../draw/geometry';
import { linesOf } from '../draw/hit';
import { currentPaints } from '../draw/item-colors';
import { paintLine, paintStack } from '../draw/paint';
import { CanvasPen } from '../draw/pen';
import { drawn, restedPicture } from '../draw/shown';
import type { Viewport } from '../numbers/scale';
import { newest } from '../source/newest';
import type { Picture, Window } from '../source/source';
import { device, file, scope } from '../state/place';
import { current, ofCurrent, source } from '../state/recordings';
import { regions } from '../state/regions';
import { trouble } from '../state/trouble';
import { abgr, parse } from '../style/colors';
import { inks, type Token } from '../style/theme';
import { reason } from '../text/reason';
import { description, drawChart } from './chart';
import { overlayLine, rowsAbove, tall, windowOf } from './model';
import { sceneOf } from './scene';

interface PictureRequest {
  scope: string;
  file: number;
  device: number;
  window: Window;
}

export interface Stage {
  geometry: ReadonlySignal<Geometry>;
  /** The viewport on the screen; the picture may still show another part. Null without a picture that could be stretched to it. */
  viewport: ReadonlySignal<Viewport | null>;
  stop(): void;
}

export interface StageElements {
  box: HTMLElement;
  /** Holds the base canvas, and clips it to the plot. */
  plot: HTMLElement;
  base: HTMLCanvasElement;
  over: HTMLCanvasElement;
}

/** The most rows of regions in the timeline view; other views have one. */
const ROWS_TALL = 4;
/** Drawing has paused after this many milliseconds without a new picture. */
const REST_MS = 120;

/** Whether one request's picture can be stretched for another: same device, kind of bytes and axis. */
const showsTheSame = (a: PictureRequest, b: PictureRequest) =>
  a.scope === b.scope && a.window.stacked === b.window.stacked && a.window.axis === b.window.axis;

export function mountStage({ box, plot, base, over }: StageElements): Stage {
  const measured = () => ({ width: box.clientWidth, height: box.clientHeight, scale: devicePixelRatio });
  const size = signal(measured());
  const observer = new ResizeObserver(() => (size.value = measured()));
  observer.observe(box);

  const places = computed(() => {
    const { width, height, scale } = size.value;
    return geometryIn(width, height, rowsAbove(tall.value ? ROWS_TALL : 1), scale);
  });

  const wanted = computed<PictureRequest | null>(() => {
    const { plotWidth, plotHeight } = places.value;
    const { scale, width } = size.value;
    if (!current.value || !regions.value || width === 0) return null;
    const window = windowOf(Math.round(plotWidth * scale), Math.round(plotHeight * scale));
    return { scope: scope.value, file: file.value, device: device.value, window };
  });

  /** The last picture and its request. */
  const latest = signal<{ scope: string; wanted: PictureRequest; picture: Picture } | null>(null);
  const answer = ofCurrent(latest);
  const queue = newest(
    (w: PictureRequest, unwanted) => source.picture(w.file, w.device, w.window, unwanted),
    (picture, wanted) => (latest.value = { scope: wanted.scope, wanted, picture }),
    (e) => (trouble.value = reason(e)),
  );

  const viewport = computed<Viewport | null>(() => {
    const last = answer.value;
    const want = wanted.value;
    if (!last || !want || !showsTheSame(last.wanted, want)) return null;
    const { from, to, low, high } = want.window;
    const { plotWidth: width, plotHeight: height } = places.value;
    if (high === null) return { from, to, low: last.picture.low, high: last.picture.high, width, height };
    return { from, to, low, high, width, height };
  });

  const stopPlacing = effect(() => {
    const { left, top, plotWidth, plotHeight } = places.value;
    Object.assign(plot.style, { left: `${left}px`, top: `${top}px`, width: `${plotWidth}px`, height: `${plotHeight}px` });
  });

  const stopAsking = effect(() => {
    if (wanted.value) queue.want(wanted.value);
  });

  const baseContext = base.getContext('2d')!;
  let image: ImageData | null = null;
  let pixels = new Uint32Array();
  /** Counts painted pictures, so that the effect that draws over them runs after each. */
  const paintings = signal(0);
  const stopPainting = effect(() => {
    const picture = answer.value?.picture;
    // Without a picture of this device, the last one stays.
    if (!picture) return;
    const { width, height } = picture.window;
    if (image?.width !== width || image.height !== height) {
      pixels = new Uint32Array(width * height);
      image = new ImageData(new Uint8ClampedArray(pixels.buffer), width, height);
      base.width = width;
      base.height = height;
    }
    paintStack(pixels, picture, currentPaints(picture));
    paintLines(pixels, picture, size.value.scale);
    baseContext.putImageData(image, 0, 0);
    paintings.value = untracked(() => paintings.value) + 1;
  });

  const overContext = over.getContext('2d')!;
  const pen = new CanvasPen(overContext);
  let animation = 0;
  let announced: PictureRequest | null = null;
  const stopDrawing = effect(() => {
    void paintings.value;
    const last = answer.value;
    const now = viewport.value;
    const { scale } = size.value;
    // Without a picture that can be stretched, the drawing stays.
    if (!last || !now) return;
    const scene = sceneOf(places.value, now, last.picture);
    const exact = isSame(last.wanted.window, wanted.value!.window);
    const draw = () => {
      stretch(base, last.picture, now, exact);
      fit(over, scene.geometry.width * scale, scene.geometry.height * scale);
      overContext.setTransform(scale, 0, 0, scale, 0, 0);
      overContext.clearRect(0, 0, scene.geometry.width, scene.geometry.height);
      // Resizing a canvas resets this setting.
      overContext.textBaseline = 'middle';
      drawChart(pen, scene);
      if (exact && announced !== last.wanted) announce(last.picture, (announced = last.wanted));
    };
    cancelAnimationFrame(animation);
    // A new picture is drawn at once; pointer updates once per animation frame.
    if (exact && announced !== last.wanted) draw();
    else animation = requestAnimationFrame(draw);
  });

  let rest: ReturnType<typeof setTimeout> | undefined;
  /** Announces that a request's picture is drawn: to readers of `draw/shown.ts`, to screen readers, and to tests through `data-drawn`. */
  function announce(picture: Picture, { scope }: PictureRequest): void {
    const root = document.documentElement;
    const drawings = Number(root.dataset.drawn ?? 0) + 1;
    root.dataset.drawn = String(drawings);
    if (drawings === 1) performance.mark('vramscope:drawn');
    const now = { scope, picture };
    drawn.last.value = now;
    clearTimeout(rest);
    rest = setTimeout(
      () => {
        over.setAttribute('aria-label', description(picture));
        drawn.rested.value = now;
      },
      restedPicture.value ? REST_MS : 0,
    );
  }

  return {
    geometry: places,
    viewport,
    stop() {
      observer.disconnect();
      queue.stop();
      cancelAnimationFrame(animation);
      clearTimeout(rest);
      [stopPlacing, stopAsking, stopPainting, stopDrawing].forEach((stop) => stop());
    },
  };
}

const isSame = (a: Window, b: Window) => (Object.keys(a) as (keyof Window)[]).every((key) => a[key] === b[key]);

/** Moves and scales the base canvas to its picture's place in the viewport. */
function stretch(base: HTMLCanvasElement, { window, low, high }: Picture, now: Viewport, exact: boolean): void {
  if (exact) {
    base.style.transform = '';
    return;
  }
  const left = ((window.from - now.from) / (now.to - now.from)) * now.width;
  const wide = (window.to - window.from) / (now.to - now.from);
  const top = (1 - (high - now.low) / (now.high - now.low)) * now.height;
  const tallness = (high - low) / (now.high - now.low);
  base.style.transform = `translate(${left}px, ${top}px) scale(${wide}, ${tallness})`;
}

function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== Math.round(width)) canvas.width = Math.round(width);
  if (canvas.height !== Math.round(height)) canvas.height = Math.round(height);
}

/** Paints the lines over the stack, with an exact value at each pixel. */
function paintLines(pixels: Uint32Array, picture: Picture, scale: number): void {
  const thickness = Math.round(1.5 * scale);
  const line = (values: Float64Array, token: Token, how: { dashed: boolean; apart: boolean }) =>
    paintLine(pixels, picture, { values, color: abgr(parse(inks.value[token])), thickness, ...how });
  for (const { kind, values, apart } of linesOf(picture)) line(values, kind, { dashed: false, apart });
  const overlaid = overlayLine(picture);
  if (overlaid) line(overlaid, 'accent', { dashed: true, apart: false });
}
