// What the whole page shares: which recording, which range of time, which moment, what is selected, what is searched
// for. All of it stands in the address, so that a view can be kept and sent.

import { batch, computed, effect, signal, type ReadonlySignal } from '@preact/signals';
import type { Axis, Recording, Names, Source, Stacked } from './source/source';
import { reason } from './text/reason';
import { clamped } from './timeline/scale';

export const VIEWS = ['overview', 'timeline', 'state', 'segments', 'moment', 'compare', 'whatif'] as const;
export type View = (typeof VIEWS)[number];
export const COLORS = ['stack', 'size', 'category', 'stream', 'pool'] as const;
export type ColorBy = (typeof COLORS)[number];
export const GROUPS = ['stack', 'line', 'function', 'file', 'category', 'stream', 'pool'] as const;
export type GroupBy = (typeof GROUPS)[number];

/** Where answers come from; set once before the page is drawn. */
export let source: Source;
export const recordings = signal<(Recording | null)[] | null>(null);
/** Names of the files that were needed so far. */
export const names = signal<ReadonlyMap<number, Names>>(new Map());
/** What went wrong last, for people; null: nothing. */
export const trouble = signal<string | null>(null);

export const view = signal<View>('overview');
export const file = signal(0);
export const device = signal(0);
export const stacked = signal<Stacked>('allocated');
export const axis = signal<Axis>('events');
/** Part of the axis that is shown; null: all. */
export const range = signal<[number, number] | null>(null);
/** Bytes shown; null: what fits. */
export const span = signal<[number, number] | null>(null);
/** The chosen moment; null: the peak of allocated bytes. */
export const moment = signal<number | null>(null);
/** A second moment to compare with; null: none. */
export const against = signal<number | null>(null);
/** The other recording in the comparison, as file and device; null: none. */
export const other = signal<[number, number] | null>(null);
/** The moment of the other recording; null: its peak of allocated bytes. */
export const otherMoment = signal<number | null>(null);
/** The selected allocation. */
export const selected = signal<number | null>(null);
export const search = signal('');
export const colorBy = signal<ColorBy>('stack');
export const groupBy = signal<GroupBy>('line');
/** Whether the timeline leaves room for the reserved line. */
export const withReserved = signal(true);
/** The row of the what-if table whose line is drawn; null: none. */
export const setting = signal<number | null>(null);

export const recording = computed(() => recordings.value?.[file.value] ?? null);
export const current = computed(() => recording.value?.devices[device.value] ?? null);
export const currentNames = computed(() => names.value.get(file.value));
/** Which device of which file is shown, in a word. */
export const scope = computed(() => `${file.value}.${device.value}`);

/** What a signal holds, as long as the recording that it is of is the one that is shown. */
export const ofCurrent = <T extends { scope: string }>(kept: ReadonlySignal<T | null>): ReadonlySignal<T | null> =>
  computed(() => (kept.value?.scope === scope.value ? kept.value : null));

/** The moment that the views show. */
export const shownMoment = computed(() => moment.value ?? current.value?.peaks.allocated.moment ?? 0);
/** Ends of the whole axis. */
export const whole = computed<[number, number]>(() => {
  const d = current.value;
  if (!d) return [0, 1];
  return axis.value === 'time' ? [0, Math.max(d.duration_us ?? 0, 1)] : [0, d.events + 1];
});
export const shownRange = computed<[number, number]>(() => range.value ?? whole.value);

/** Begins with `from`: asks for the recordings, then follows the address. */
export async function start(from: Source): Promise<void> {
  source = from;
  read();
  window.addEventListener('hashchange', read);
  try {
    const all = await source.recordings();
    batch(() => {
      recordings.value = all;
      clampToRecordings();
      place = placeNow();
    });
  } catch (e) {
    trouble.value = reason(e);
  }
  effect(writeSoon);
}

const asked = new Set<number>();

/** Asks for the names of a file, until they are there. */
export async function needNames(of: number): Promise<void> {
  if (asked.has(of)) return;
  asked.add(of);
  try {
    const got = await source.names(of);
    names.value = new Map(names.value).set(of, got);
  } catch (e) {
    asked.delete(of);
    throw e;
  }
}

/** Shows another device, at its own whole range. */
export function choose(newFile: number, newDevice: number): void {
  batch(() => {
    file.value = newFile;
    device.value = newDevice;
    range.value = span.value = moment.value = against.value = otherMoment.value = selected.value = setting.value = null;
    if (!hasAxis()) axis.value = 'events';
  });
}

/** The file that is being closed; null: none. */
let closing: number | null = null;

/** Closes the file that is shown, and shows the first that is open. */
export async function closeShown(): Promise<void> {
  const closed = file.value;
  // A second click asks for the same once more.
  if (closed === closing) return;
  closing = closed;
  try {
    await source.close?.(closed);
    leave(closed);
  } catch (e) {
    // Another page may have closed it.
    const all = await source.recordings().catch(() => null);
    if (all && !all[closed]) leave(closed);
    else trouble.value = reason(e);
  } finally {
    closing = null;
  }
}

/** Nothing is asked any more about a file that was closed. */
function leave(closed: number): void {
  batch(() => {
    recordings.value = recordings.value?.map((one, of) => (of === closed ? null : one)) ?? null;
    names.value = new Map([...names.value].filter(([of]) => of !== closed));
    if (other.value?.[0] === closed) other.value = null;
    if (file.value === closed) choose(firstOpen(), 0);
  });
}

/** The first file that was not closed; 0 where there is none. */
const firstOpen = () => Math.max(recordings.value?.findIndex((one) => one !== null) ?? 0, 0);

/** An address may name what this recording does not have. */
function clampToRecordings(): void {
  if (!current.value) choose(firstOpen(), 0);
  const last = current.value?.events ?? 0;
  for (const at of [moment, against]) if (at.value !== null) at.value = Math.min(at.value, last);
  if (selected.value !== null && selected.value >= (current.value?.allocations ?? 0)) selected.value = null;
  if (!hasAxis()) {
    // Times are no events.
    axis.value = 'events';
    range.value = null;
  }
  if (range.value) {
    const [from, to] = clamped(range.value, whole.value);
    range.value = from <= whole.value[0] && to >= whole.value[1] ? null : [from, to];
  }
}

const hasAxis = () => axis.value === 'events' || current.value?.origin_us != null;

const number = (text: string | null) => {
  const n = text !== null && /^\d+(\.\d+)?$/.test(text) ? Number(text) : Infinity;
  return Number.isFinite(n) ? n : null;
};
const position = (text: string | null) => {
  const n = number(text);
  return n === null ? null : Math.floor(n);
};
const pair = (text: string | null): [number, number] | null => {
  const [a, b] = (text ?? '').split('~').map((t) => number(t));
  return a != null && b != null && a < b ? [a, b] : null;
};
const oneOf = <T extends string>(all: readonly T[], text: string | null, otherwise: T): T =>
  all.find((v) => v === text) ?? otherwise;

/** The address as it was last read or written. */
let known = '';

function read(): void {
  // What was not written yet belongs to the entry that was left.
  clearTimeout(writing);
  waiting = null;
  known = location.hash;
  const p = new URLSearchParams(location.hash.slice(1));
  batch(() => {
    view.value = oneOf(VIEWS, p.get('view'), 'overview');
    file.value = position(p.get('file')) ?? 0;
    device.value = position(p.get('device')) ?? 0;
    stacked.value = oneOf(['allocated', 'requested', 'active', 'reserved'], p.get('stacked'), 'allocated');
    axis.value = oneOf(['events', 'time'], p.get('axis'), 'events');
    range.value = pair(p.get('range'));
    span.value = pair(p.get('bytes'));
    moment.value = position(p.get('moment'));
    against.value = position(p.get('against'));
    const [f, d] = (p.get('other') ?? '').split('.').map((t) => position(t));
    other.value = f != null && d != null ? [f, d] : null;
    otherMoment.value = position(p.get('othermoment'));
    selected.value = position(p.get('selected'));
    search.value = p.get('search') ?? '';
    colorBy.value = oneOf(COLORS, p.get('color'), 'stack');
    groupBy.value = oneOf(GROUPS, p.get('by'), 'line');
    setting.value = position(p.get('setting'));
    withReserved.value = p.get('fit') !== 'stack';
    if (recordings.value) clampToRecordings();
    place = placeNow();
  });
}

/** Browsers refuse an address that changes all the time: it follows when the hand rests. */
const REST_MS = 200;
let writing: ReturnType<typeof setTimeout> | undefined;
let waiting: { hash: string; place: string } | null = null;
/** Where the address leads; the way back leads through these. */
let place = '';
const placeNow = () => `${view.value} ${scope.value}`;

function writeSoon(): void {
  const next = { hash: address(), place: placeNow() };
  // The place that is left keeps what was done there last.
  if (next.place !== place && waiting?.place === place) write();
  waiting = next;
  clearTimeout(writing);
  writing = setTimeout(write, REST_MS);
}

function write(): void {
  if (!waiting) return;
  // Somebody has edited the address, and its event is still under way: what it says is newer.
  if (location.hash !== known) return read();
  if (waiting.place !== place) history.pushState(null, '', waiting.hash);
  else if (waiting.hash !== location.hash) history.replaceState(null, '', waiting.hash);
  known = location.hash;
  place = waiting.place;
  waiting = null;
}

function address(): string {
  const p = new URLSearchParams();
  const put = (key: string, value: string | number | null, silent: string | number | null = null) => {
    if (value !== null && value !== silent) p.set(key, String(value));
  };
  const round = (n: number) => (axis.value === 'time' ? Math.round(n) : Math.round(n * 100) / 100);
  put('view', view.value, 'overview');
  put('file', file.value, 0);
  put('device', device.value, 0);
  put('stacked', stacked.value, 'allocated');
  put('axis', axis.value, 'events');
  put('range', range.value && range.value.map(round).join('~'));
  put('bytes', span.value && span.value.map(Math.round).join('~'));
  put('moment', moment.value);
  put('against', against.value);
  put('other', other.value && other.value.join('.'));
  put('othermoment', otherMoment.value);
  put('selected', selected.value);
  put('search', search.value, '');
  put('color', colorBy.value, 'stack');
  put('by', groupBy.value, 'line');
  put('setting', setting.value);
  put('fit', withReserved.value ? null : 'stack');
  return `#${p}`;
}
