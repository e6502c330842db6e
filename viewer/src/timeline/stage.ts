// The canvases of the timeline: asks for pictures, paints them, and follows the hand while the next one is under way.

import { batch, computed, effect, signal, untracked, type ReadonlySignal } from '@preact/signals';
import { abgr, parse } from '../colors';
import { CanvasPen } from '../parts/pen';
import { inks } from '../shell/theme';
import type { Picture, Window } from '../source/source';
import { current, device, file, source, stacked, trouble } from '../state';
import { description, drawChart } from './chart';
import { bandRowsOf, geometry, type Geometry } from './geometry';
import { overlayValues } from './hit';
import { paintsOf, regions, shown, tall, windowOf, type Shown } from './model';
import { newest } from './newest';
import { overlay } from './overlay';
import { paintLine, paintStack } from './paint';
import type { Frame } from './scale';
import { sceneOf } from './scene';

interface Wanted {
  file: number;
  device: number;
  window: Window;
}

export interface Stage {
  geometry: ReadonlySignal<Geometry>;
  /** What the screen shows now, which may be ahead of the picture. */
  frame: ReadonlySignal<Frame | null>;
  stop(): void;
}

const ROWS_TALL = 4;

const keyOf = (wanted: Wanted) => JSON.stringify(wanted);

/** Whether a picture can stand in for another window: it shows the same thing, elsewhere. */
const isAkin = (a: Wanted, b: Wanted) =>
  a.file === b.file && a.device === b.device && a.window.stacked === b.window.stacked && a.window.axis === b.window.axis;

export function mountStage(box: HTMLElement, base: HTMLCanvasElement, over: HTMLCanvasElement): Stage {
  const size = signal({ width: box.clientWidth, height: box.clientHeight, scale: devicePixelRatio });
  const observer = new ResizeObserver(() => {
    size.value = { width: box.clientWidth, height: box.clientHeight, scale: devicePixelRatio };
  });
  observer.observe(box);

  const places = computed(() => {
    const { width, height, scale } = size.value;
    return geometry(width, height, bandRowsOf(regions.value, tall.value ? ROWS_TALL : 1), scale);
  });

  const wanted = computed<Wanted | null>(() => {
    const { plotWidth, plotHeight } = places.value;
    const { scale, width } = size.value;
    if (!current.value || width === 0) return null;
    const window = windowOf(Math.round(plotWidth * scale), Math.round(plotHeight * scale));
    return { file: file.value, device: device.value, window };
  });

  /** The last answer, and what it answered. */
  const picture = signal<{ wanted: Wanted; picture: Picture } | null>(null);
  /** The painted picture; stretched it is the preview of the next. */
  const sheet = document.createElement('canvas');
  const sheetContext = sheet.getContext('2d')!;
  const baseContext = base.getContext('2d')!;
  const overContext = over.getContext('2d')!;
  const pen = new CanvasPen(overContext);

  const queue = newest(
    (w: Wanted) => source.picture(w.file, w.device, w.window),
    (answer, w) => (picture.value = { wanted: w, picture: answer }),
    (e) => (trouble.value = e instanceof Error ? e.message : String(e)),
  );

  const frame = computed<Frame | null>(() => {
    const last = picture.value;
    const want = wanted.value;
    if (!last || !want || !isAkin(last.wanted, want)) return null;
    const { from, to, low, high } = want.window;
    const fitted = high === null;
    return {
      from,
      to,
      low: fitted ? last.picture.low : low,
      high: fitted ? last.picture.high : high,
      width: places.value.plotWidth,
      height: places.value.plotHeight,
    };
  });

  const stopAsking = effect(() => {
    if (wanted.value) queue.want(wanted.value);
  });

  let painted: { picture: Picture; image: ImageData; pixels: Uint32Array<ArrayBuffer> } | null = null;
  /** Counts paintings, so that drawing follows them. */
  const paintings = signal(0);
  const stopPainting = effect(() => {
    const last = picture.value;
    if (!last) return;
    const { width, height } = last.picture.window;
    if (!painted || painted.image.width !== width || painted.image.height !== height) {
      const pixels = new Uint32Array(width * height);
      painted = { picture: last.picture, image: new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), pixels };
      sheet.width = width;
      sheet.height = height;
    }
    painted.picture = last.picture;
    paintStack(painted.pixels, last.picture, paintsOf(last.picture.items));
    paintLines(painted.pixels, last.picture, size.value.scale);
    sheetContext.putImageData(painted.image, 0, 0);
    paintings.value = untracked(() => paintings.value) + 1;
  });

  let request = 0;
  let told = '';
  const stopDrawing = effect(() => {
    void paintings.value;
    const last = picture.value;
    const now = frame.value;
    const { scale } = size.value;
    // Until something akin arrives, what was drawn stays.
    if (!last || !now) return;
    const scene = sceneOf(places.value, now, last.picture);
    const key = wanted.value && keyOf(wanted.value);
    cancelAnimationFrame(request);
    const exact = key === keyOf(last.wanted);
    const draw = () => {
      drawPicture(last.picture, now, places.value, scale);
      fit(over, scene.geometry.width * scale, scene.geometry.height * scale);
      overContext.setTransform(scale, 0, 0, scale, 0, 0);
      overContext.clearRect(0, 0, scene.geometry.width, scene.geometry.height);
      overContext.textBaseline = 'middle';
      drawChart(pen, scene);
      if (!exact || told === key) return;
      told = key!;
      tell(last.picture, last.wanted);
    };
    // An answer is drawn at once; what follows the hand once a frame.
    if (exact && told !== key) draw();
    else request = requestAnimationFrame(draw);
  });

  function drawPicture(of: Picture, now: Frame, g: Geometry, scale: number): void {
    const width = Math.round(g.plotWidth * scale);
    const height = Math.round(g.plotHeight * scale);
    fit(base, width, height);
    const { from, to } = of.window;
    const left = ((from - now.from) / (now.to - now.from)) * width;
    const wide = ((to - from) / (now.to - now.from)) * width;
    const top = (1 - (of.high - now.low) / (now.high - now.low)) * height;
    const tallness = ((of.high - of.low) / (now.high - now.low)) * height;
    baseContext.clearRect(0, 0, width, height);
    baseContext.imageSmoothingEnabled = false;
    baseContext.drawImage(sheet, left, top, wide, tallness);
  }

  /** The drawing is there: for tests, measuring and screen readers. */
  function tell(of: Picture, w: Wanted): void {
    over.setAttribute('aria-label', description(of));
    const root = document.documentElement;
    const drawings = Number(root.dataset.drawn ?? 0) + 1;
    root.dataset.drawn = String(drawings);
    if (drawings === 1) performance.mark('vramscope:drawn');
    const next: Shown = { file: w.file, device: w.device, picture: of };
    batch(() => (shown.value = next));
  }

  return {
    geometry: places,
    frame,
    stop() {
      observer.disconnect();
      queue.stop();
      cancelAnimationFrame(request);
      [stopAsking, stopPainting, stopDrawing].forEach((stop) => stop());
    },
  };
}

function fit(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== Math.round(width)) canvas.width = Math.round(width);
  if (canvas.height !== Math.round(height)) canvas.height = Math.round(height);
}

/** Exact lines over the stack, one value a pixel. */
function paintLines(pixels: Uint32Array, picture: Picture, scale: number): void {
  const thickness = Math.round(1.5 * scale);
  for (const kind of ['active', 'reserved'] as const) {
    if (kind === stacked.value) continue;
    const color = abgr(parse(inks.value[kind]));
    paintLine(pixels, picture, { values: picture.highest[kind], color, thickness, dashed: false });
  }
  if (!overlay.value) return;
  const color = abgr(parse(inks.value.accent));
  paintLine(pixels, picture, { values: overlayValues(picture, overlay.value.points), color, thickness, dashed: true });
}
