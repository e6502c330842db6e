// The ticks of axes, and their labels.

import { count } from '../text/units';

export interface Tick {
  at: number;
  label: string;
}

function along(from: number, to: number, step: number, label: (at: number) => string): Tick[] {
  const ticks: Tick[] = [];
  // Multiples avoid accumulating rounding errors.
  for (let i = Math.ceil(from / step); i * step <= to; i += 1) ticks.push({ at: i * step, label: label(i * step) });
  return ticks;
}

/** Returns the smallest step that is at least `least`: 1, 2 or 5 times a power of ten. */
function decimalStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((n) => n * power >= least) ?? 10) * power;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const unitOf = (n: number) => Math.min(Math.max(Math.floor(Math.log2(Math.max(n, 1)) / 10), 0), UNITS.length - 1);

/** Returns about `most` ticks of bytes. Their step is a power of two, so that all labels are short in some unit. */
export function byteTicks(low: number, high: number, most: number): Tick[] {
  if (!(high > low)) return [];
  const step = 2 ** Math.max(Math.ceil(Math.log2((high - low) / Math.max(most, 1))), 0);
  return along(low, high, step, (at) => byteLabel(at, step));
}

/** Formats `16 MiB` or `1.5 GiB`: exact if three decimals suffice, else in the unit of `step`. */
export function byteLabel(at: number, step: number): string {
  if (at === 0) return '0 B';
  const own = at / 1024 ** unitOf(at);
  if (Number(own.toFixed(3)) === own) return `${own} ${UNITS[unitOf(at)]}`;
  return `${count(at / 1024 ** unitOf(step))} ${UNITS[unitOf(step)]}`;
}

/** Returns about `most` ticks of an axis of moments. Event n is at the start of moment n + 1, which follows it. */
export function eventTicks(from: number, to: number, most: number): Tick[] {
  if (!(to > from)) return [];
  const step = Math.max(decimalStep((to - from) / Math.max(most, 1)), 1);
  const events = along(Math.max(from - 1, 0), to - 1, step, count);
  return events.map(({ at, label }) => ({ at: at + 1, label }));
}

const SECOND = 1e6;
const DAY = 86400 * SECOND;
/** Steps of a minute or more. */
const LONG_STEPS = [...[60, 120, 300, 600, 1800, 3600, 7200, 21600].map((s) => s * SECOND), DAY];

/** Returns about `most` ticks of an axis of microseconds. */
export function timeTicks(from: number, to: number, most: number): Tick[] {
  if (!(to > from)) return [];
  const least = (to - from) / Math.max(most, 1);
  const step =
    least <= 30 * SECOND ? Math.max(decimalStep(least), 1) : (LONG_STEPS.find((s) => s >= least) ?? Math.ceil(least / DAY) * DAY);
  return along(from, to, step, (at) => timeLabel(at, step));
}

function timeLabel(us: number, step: number): string {
  if (us === 0) return '0 s';
  if (step >= 60 * SECOND) {
    const minutes = Math.round(us / 60 / SECOND);
    return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')}`;
  }
  const [unit, name] = us >= SECOND ? [SECOND, 's'] : us >= 1e3 ? [1e3, 'ms'] : [1, 'us'];
  const decimals = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(us / unit).toFixed(decimals)} ${name}`;
}
