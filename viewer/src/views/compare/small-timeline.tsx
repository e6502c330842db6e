import { useEffect, useMemo, useRef } from 'preact/hooks';
import { colorKeysBy, type ColorKeys } from '../../draw/color-keys';
import { NOTHING_ABOVE, geometryIn } from '../../draw/geometry';
import { momentAt, placeOf } from '../../draw/hit';
import { pictureColors } from '../../draw/item-colors';
import { paintLine, paintStack } from '../../draw/paint';
import { paintsOf } from '../../draw/paints';
import { SaveMenu } from '../../save/menu';
import { toPng } from '../../save/picture';
import type { Device, Picture } from '../../source/source';
import { colorOf, type ColorBy } from '../../state/grouping';
import { groupsBy, needGroups } from '../../state/groups';
import { needMeaning, source } from '../../state/recordings';
import { trouble } from '../../state/trouble';
import { axis } from '../../state/window';
import { abgr, parse } from '../../style/colors';
import { dark, inks } from '../../style/theme';
import { reason } from '../../text/reason';
import { bytes } from '../../text/units';
import { useAnswer } from '../../parts/answer';
import { momentText } from '../../parts/current';
import { useSize } from '../../parts/size';

export interface SmallTimelineProps {
  file: number;
  device: number;
  recording: Device;
  title: string;
  /** Bytes at the top, the same for all compared timelines. */
  high: number;
  moment: number;
  choose: (moment: number) => void;
}

/** Below this width in pixels no picture is requested, because the element has no size yet. */
const LEAST_WIDTH = 50;

/** The allocated bytes of a whole recording, with a line for reserved bytes. A click chooses a moment. */
export function SmallTimeline(p: SmallTimelineProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const scale = window.devicePixelRatio || 1;
  const left = geometryIn(size.width, size.height, NOTHING_ABOVE, scale).left;
  const [width, height] = [Math.floor((size.width - left) * scale), Math.floor(size.height * scale)];
  const over = axis.value === 'time' && p.recording.duration_us !== null ? 'time' : 'events';
  const to = over === 'time' ? Math.max(p.recording.duration_us!, 1) : p.recording.events + 1;
  const ready = width > LEAST_WIDTH && height > 0;
  const isTold = p.recording.purposes !== null;
  const answer = useAnswer(
    `${p.file}.${p.device}`,
    `${width}.${height}.${over}.${p.high}.${isTold}`,
    ready
      ? (unwanted) =>
          source.picture(
            p.file,
            p.device,
            {
              stacked: 'allocated',
              axis: over,
              from: 0,
              to,
              width,
              height,
              low: 0,
              high: p.high,
              fit_reserved: true,
              only: null,
            },
            unwanted,
          )
      : null,
  );
  const picture = answer.value;
  const by = colorOf(p.recording);
  const isDark = dark.value;
  const ink = inks.value;
  const groups = groupsBy(by);
  const colors = useMemo(
    () => colorKeysBy(by, p.recording, `${p.file}.${p.device}`, groups, isDark),
    [by, p.recording, p.file, p.device, groups, isDark],
  );
  useEffect(() => {
    needGroups(p.file, p.device, by).catch((e: unknown) => (trouble.value = reason(e)));
  }, [p.file, p.device, by]);

  useEffect(() => {
    if (!picture || !canvas.current) return;
    paint(canvas.current, picture, colors, by, parse(ink.reserved), isDark);
  }, [picture, colors, by, isDark, ink]);

  const isDrawn = picture !== null;
  useEffect(() => {
    if (isDrawn) needMeaning(p.file, p.device).catch((e: unknown) => (trouble.value = reason(e)));
  }, [isDrawn, p.file, p.device]);

  const cursor = picture && left + (placeInWhole(picture, p.moment) / to) * (size.width - left);
  const click = (e: MouseEvent) => {
    if (!picture) return;
    const r = box.current!.getBoundingClientRect();
    const x = Math.floor(((e.clientX - r.left - left) / (size.width - left)) * picture.window.width);
    const moment = momentAt(picture, x);
    // Left of the picture there is no moment, nor at its end if the picture is longer than the recording.
    if (!Number.isNaN(moment)) p.choose(moment);
  };
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 100, PageUp: -100 }[e.key];
    if (!step) return;
    e.preventDefault();
    e.stopPropagation();
    p.choose(Math.min(Math.max(p.moment + step, 0), p.recording.events));
  };
  return (
    <div class="small-timeline">
      <div class="small-title">
        <b>{p.title}</b>
        <span class="quiet">{momentText(p.moment, p.recording)}</span>
        <span class="spring" />
        <SaveMenu
          name={`compare-${p.recording.device}-${p.moment}`}
          items={[{ label: 'Picture as PNG', extension: 'png', make: () => toPng(canvas.current!) }]}
        />
      </div>
      <div
        ref={box}
        class="small-box"
        role="slider"
        tabIndex={0}
        aria-label={`Moment of ${p.title}`}
        aria-valuemin={0}
        aria-valuemax={p.recording.events}
        aria-valuenow={p.moment}
        aria-valuetext={momentText(p.moment, p.recording)}
        onClick={click}
        onKeyDown={keys}
      >
        <span class="small-high">{bytes(p.high)}</span>
        <span class="small-low">0</span>
        <canvas
          ref={canvas}
          aria-hidden="true"
          style={{ left: `${left}px`, width: `${width / scale}px`, height: `${height / scale}px` }}
        />
        {cursor !== null && <span class="small-cursor" style={{ left: `${cursor}px` }} />}
      </div>
    </div>
  );
}

/**
 * Returns a moment's position on the axis of a picture of the whole recording. A pixel knows only the moment that it shows, so moments
 * before the first pixel's are in the first pixel, and those after the last pixel's in the last.
 */
function placeInWhole(picture: Picture, moment: number): number {
  const { from, to, width } = picture.window;
  const half = (to - from) / width / 2;
  return placeOf(picture, moment) ?? (moment < momentAt(picture, 0) ? from + half : to - half);
}

function paint(
  canvas: HTMLCanvasElement,
  picture: Picture,
  colors: ColorKeys,
  by: ColorBy,
  reserved: number,
  isDark: boolean,
): void {
  const { items, window } = picture;
  const color = pictureColors(picture, colors, by);
  canvas.width = window.width;
  canvas.height = window.height;
  const image = new ImageData(window.width, window.height);
  const pixels = new Uint32Array(image.data.buffer);
  paintStack(pixels, picture, paintsOf(items, color, isDark));
  paintLine(pixels, picture, {
    values: picture.highest.reserved,
    color: abgr(reserved),
    thickness: Math.ceil(1.5 * devicePixelRatio),
    dashed: false,
  });
  canvas.getContext('2d')!.putImageData(image, 0, 0);
}
