import { css, oklch } from '../../style/colors';

/** The number of byte levels with distinct colors. */
export const LEVELS = 64;

/**
 * Returns the colors of levels, from few bytes to many. They differ only in lightness, so that color-blind people see the same: many bytes
 * are dark on a light background, and light on a dark one.
 */
export function heatColors(dark: boolean): readonly string[] {
  return Array.from({ length: LEVELS }, (_, level) => {
    const share = level / (LEVELS - 1);
    const chroma = 0.05 + 0.04 * Math.sin(share * Math.PI);
    return css(
      dark ? oklch(0.25 + 0.68 * share, chroma, 275 - 170 * share) : oklch(0.96 - 0.68 * share, chroma, 105 + 170 * share),
    );
  });
}
