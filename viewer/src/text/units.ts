// Numbers with units, formatted as in `vramscope report`.

const UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/**
 * Formats a number with this many decimals as Rust does: `toFixed` rounds ties up, Rust rounds them to the even digit. 1152 bytes are
 * `1.12 KiB` in both.
 */
function fixed(n: number, decimals: 1 | 2): string {
  const size = Math.abs(n);
  // A binary number is a tie only if it is an odd multiple of 1/4 (one decimal) or of 1/8 (two decimals).
  const isTie = (size * 2 ** (decimals + 1)) % 2 === 1;
  if (!isTie) return n.toFixed(decimals);
  const below = Math.floor(size * 10 ** decimals);
  const even = (below + (below % 2)) / 10 ** decimals;
  return (n < 0 ? -even : even).toFixed(decimals);
}

/** Formats `1.62 GiB`: 1024-based, two decimals, whole bytes below a KiB. */
export function bytes(n: number): string {
  if (Math.abs(n) < 1024) return `${Math.round(n)} B`;
  let value = n / 1024;
  let unit = 0;
  while (Math.abs(value) >= 1023.995 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  return `${fixed(value, 2)} ${UNITS[unit]}`;
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

/** `4 us`, `1.5 ms`, `3.2 s`, `2 min 5 s`, `3 h 5 min`, `2 days 4 h`. */
export function duration(us: number): string {
  if (us < 1e3) return `${Math.round(us)} us`;
  if (us < 1e6) return `${fixed(us / 1e3, 1)} ms`;
  if (us < 120e6) return `${fixed(us / 1e6, 1)} s`;
  if (us < 7_200e6) return `${Math.floor(us / 60e6)} min ${Math.floor(us / 1e6) % 60} s`;
  if (us < 172_800e6) return `${Math.floor(us / 3_600e6)} h ${Math.floor(us / 60e6) % 60} min`;
  return `${Math.floor(us / 86_400e6)} days ${Math.floor(us / 3_600e6) % 24} h`;
}

/** `12.3%`. */
export function share(part: number, whole: number): string {
  return whole === 0 ? '-' : `${fixed((part * 100) / whole, 1)}%`;
}

/** Capitalizes a text at the start of a line: `Layer`. */
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** `GPU 0`; the host's memory is recorded as device -1. */
export const deviceName = (device: number) => (device < 0 ? 'Host' : `GPU ${device}`);

/** Formats `0x7f3a00200000`. */
export function address(n: number): string {
  return `0x${n.toString(16)}`;
}

/** Formats `b7f3a00200000_0`: an allocation's name in memory_viz. */
export const allocationName = (at: number, version: number) => `b${at.toString(16)}_${version}`;

/** Formats a phase of a step, as recordings name it: `zero grad`. */
export const phaseName = (phase: string) => phase.replaceAll('_', ' ');

/** Formats a step's number, counted from 1. */
export const stepNumber = (step: number) => count(step + 1);
