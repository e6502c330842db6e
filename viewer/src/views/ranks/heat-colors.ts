import { css, oklch } from '../../style/colors';

/** How many levels of bytes have a colour of their own. */
export const LEVELS = 64;

/**
 * The colours of levels, from few bytes to many. Lightness alone tells them apart, so that people see them alike who do not see all hues:
 * many bytes are dark on a light ground, and light on a dark one.
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
