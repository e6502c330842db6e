export interface SparklineProps {
  /** Moments and the bytes from there on, in order. */
  points: readonly (readonly [number, number])[];
  /** The last moment, and the bytes at the top. */
  end: number;
  high: number;
}

const [WIDTH, HEIGHT] = [120, 22];

/** Returns the corners of the step line through some points in a box of this size. */
export function corners({ points, end, high }: SparklineProps, width: number, height: number): [number, number][] {
  const x = (moment: number) => (moment / Math.max(end, 1)) * width;
  const y = (bytes: number) => height - (bytes / Math.max(high, 1)) * height;
  const found: [number, number][] = [];
  for (const [moment, bytes] of points) {
    const before = found.at(-1);
    found.push([x(moment), before ? before[1] : y(0)], [x(moment), y(bytes)]);
  }
  const last = found.at(-1);
  return last ? [...found, [width, last[1]]] : [];
}

/** Bytes over a recording's moments, as a small line. The text beside it has the same information. */
export function Sparkline(p: SparklineProps) {
  const path = corners(p, WIDTH, HEIGHT - 2)
    .map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${x.toFixed(1)} ${(y + 1).toFixed(1)}`)
    .join('');
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <path d={path} />
    </svg>
  );
}
