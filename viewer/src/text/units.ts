// Numbers with units, formatted as in `vramscope report`.

const UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** Formats `1.62 GiB`: 1024-based, two decimals, whole bytes below a KiB. */
export function bytes(n: number): string {
  if (Math.abs(n) < 1024) return `${Math.round(n)} B`;
  let value = n / 1024;
  let unit = 0;
  while (Math.abs(value) >= 1023.995 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(2)} ${UNITS[unit]}`;
}

/** `+1.62 GiB`, `-512 B`, `0 B`. */
export function signedBytes(n: number): string {
  return n > 0 ? `+${bytes(n)}` : bytes(n);
}

const WHOLE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** `1,234,567`. */
export function count(n: number): string {
  return WHOLE.format(n);
}

/** `3.2 s`, `1.5 ms`, `4 us`, `2 min 5 s`. */
export function duration(us: number): string {
  if (us < 1e3) return `${Math.round(us)} us`;
  if (us < 1e6) return `${(us / 1e3).toFixed(1)} ms`;
  if (us < 120e6) return `${(us / 1e6).toFixed(1)} s`;
  return `${Math.floor(us / 60e6)} min ${Math.floor(us / 1e6) % 60} s`;
}

/** `12.3%`. */
export function share(part: number, whole: number): string {
  return whole === 0 ? '-' : `${((part * 100) / whole).toFixed(1)}%`;
}

/** Capitalizes a text at the start of a line: `Layer`. */
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Formats the shares of parts like `share`, rounded so that they add up to 100.0% if the parts make up the whole. */
export function shareTexts(parts: readonly number[], whole: number): string[] {
  if (whole === 0) return parts.map(() => '-');
  const exact = parts.map((part) => (part * 1000) / whole);
  const tenths = exact.map(Math.floor);
  const missing = Math.round(exact.reduce((a, b) => a + b, 0)) - tenths.reduce((a, b) => a + b, 0);
  const rests = exact.map((n, i) => [n - Math.floor(n), i] as const).sort(([a], [b]) => b - a);
  for (const [, i] of rests.slice(0, missing)) tenths[i] = (tenths[i] ?? 0) + 1;
  return tenths.map((n) => `${(n / 10).toFixed(1)}%`);
}

/** `GPU 0`; the host's memory is recorded as device -1. */
export const deviceName = (device: number) => (device < 0 ? 'Host' : `GPU ${device}`);

/** Formats `0x7f3a00200000`. */
export function address(n: number): string {
  return `0x${n.toString(16)}`;
}

/** Formats `b7f3a00200000_0`: an allocation's name in memory_viz. */
export const allocationName = (at: number, version: number) => `b${at.toString(16)}_${version}`;

/** Formats a step's number, counted from 1. */
export const stepNumber = (step: number) => count(step + 1);
