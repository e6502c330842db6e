// Paints allocated bytes by category as stacked bands, in the order of the categories.

import { NONE, type Bands } from '../source/source';

/** Returns the first column with the highest sum over all bands, and that sum. */
export function highest({ moment, bands }: Bands): { column: number; bytes: number } {
  const sums = Float64Array.from(moment, (_, c) => bands.reduce((sum, { bytes }) => sum + (bytes[c] ?? 0), 0));
  const bytes = sums.reduce((a, b) => Math.max(a, b), 0);
  return { column: Math.max(sums.indexOf(bytes), 0), bytes };
}

/**
 * Paints bands from 0 bytes to `high` into an image with one pixel column per band column. `colors` has one canvas color per band. The
 * upper edge of each band is rounded so that the stack ends at the row of its sum.
 */
export function paintBands(
  pixels: Uint32Array,
  height: number,
  { column, bands }: Bands,
  high: number,
  colors: readonly number[],
): void {
  const width = column.length;
  pixels.fill(0);
  for (let x = 0; x < width; x += 1) {
    const c = column[x] ?? NONE;
    if (c === NONE) continue;
    let sum = 0;
    let row = 0;
    bands.forEach(({ bytes }, band) => {
      sum += bytes[c] ?? 0;
      const end = Math.min(Math.round((sum / high) * height), height);
      for (; row < end; row += 1) pixels[(height - 1 - row) * width + x] = colors[band] ?? 0;
    });
  }
}
