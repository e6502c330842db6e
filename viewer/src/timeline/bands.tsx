// Allocated bytes by category over the whole recording: the minimap's picture once categories are known.

import { momentText } from '../parts/current';
import { effect, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { highest, paintBands } from './band-shapes';
import { categoryText } from '../names/tags';
import { numberAt } from '../numbers/at';
import { useSize } from '../parts/size';
import { Facts, Tooltip } from '../parts/tooltip';
import { findsCategory, onlyQuery } from '../search/found';
import { CATEGORIES, NONE, type Bands } from '../source/source';
import { asked } from '../state/asked';
import { tellsCategories } from '../state/grouping';
import { device, file } from '../state/place';
import { current, source } from '../state/recordings';
import { axis, whole } from '../state/window';
import { FADED, abgr, categoryColor, mix, parse } from '../style/colors';
import { dark, inks } from '../style/theme';
import { bytes, capital } from '../text/units';

/** The width in device pixels. */
const width = signal(0);

/** The bands. Like the minimap, they do not depend on the shown part. */
const bands = asked((unwanted) => {
  if (!tellsCategories(current.value) || width.value === 0) return null;
  const [from, to] = whole.value;
  const span = { axis: axis.value, from, to, width: width.value, only: onlyQuery.value };
  return source.ask(file.value, device.value, { question: 'bands', ...span }, unwanted);
});

const nameOf = (category: number) => CATEGORIES[category] ?? 'unknown';

/** Returns the colors, faded for categories without matches, as in the other pictures. */
function colorsOf({ bands }: Bands): number[] {
  const ground = parse(inks.value.ground);
  return bands.map(({ category }) => {
    const color = categoryColor(nameOf(category), dark.value);
    return abgr(findsCategory(nameOf(category)) ? color : mix(color, ground, FADED));
  });
}

/** The pointer's position: in CSS pixels from the left edge of the bands, and in the window. */
export interface BandsHover {
  x: number;
  clientX: number;
  clientY: number;
}

export function CategoryBands({ hover }: { hover: BandsHover | null }) {
  const [box, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => void (width.value = Math.round(size.width * devicePixelRatio)), [size.width]);
  useEffect(
    () =>
      effect(() => {
        const all = bands.value;
        const target = canvas.current;
        if (!all || !target) return;
        const wide = all.column.length;
        const high = Math.round(target.clientHeight * devicePixelRatio);
        target.width = wide;
        target.height = high;
        const pixels = new Uint32Array(wide * high);
        paintBands(pixels, high, all, Math.max(highest(all).bytes, 1), colorsOf(all));
        target.getContext('2d')!.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), wide, high), 0, 0);
      }),
    [size.height],
  );
  const all = bands.value;
  const column = all && hover ? (all.column[Math.floor(hover.x * devicePixelRatio)] ?? NONE) : NONE;
  return (
    <div ref={box} class="minimap-picture minimap-bands">
      <canvas ref={canvas} role="img" aria-label={all ? description(all) : 'Allocated bytes by category, not drawn yet.'} />
      {all && hover && column !== NONE && (
        <Tooltip x={hover.clientX} y={hover.clientY}>
          <p class="tooltip-title">{current.value && capital(momentText(numberAt(all.moment, column), current.value))}</p>
          <Facts facts={factsAt(all, column)} />
        </Tooltip>
      )}
    </div>
  );
}

/** Returns the bytes of each category in a column, the uppermost band first. */
function factsAt({ bands }: Bands, column: number): [string, string][] {
  const rows = bands.map(({ category, bytes: of }) => [categoryText(nameOf(category)), numberAt(of, column)] as const);
  const sum = rows.reduce((all, [, n]) => all + n, 0);
  const there = rows.filter(([, n]) => n > 0).reverse();
  return [['allocated', bytes(sum)], ...there.map(([name, n]) => [name, bytes(n)] as [string, string])];
}

/** Describes the bands for screen readers: the categories in the highest column. */
function description(all: Bands): string {
  const [, ...rows] = factsAt(all, highest(all).column);
  return `Allocated bytes by category over the whole recording. At the peak: ${rows.map(([name, n]) => `${name} ${n}`).join(', ')}.`;
}
