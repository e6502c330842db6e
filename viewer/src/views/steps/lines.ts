// The outlines of steps, aligned at an event, and their first differences.

import { numberAt } from '../../numbers/at';
import type { Range } from '../../numbers/scale';
import { NO_STACK, ownLabel } from '../../names/stacks';
import { ACTIONS, NONE, PHASES, type Axis, type Device, type Picture } from '../../source/source';
import type { Alignment, OverlaidStep } from '../../state/overlaid';
import { names, needNames, source } from '../../state/recordings';
import { bytes, signedBytes } from '../../text/units';

/** A step with its moments, and its ends on the axis relative to the aligned event. */
export interface AlignedStep extends OverlaidStep {
  recording: Device;
  title: string;
  /** The moment before the first event, and the last moment. */
  from: number;
  to: number;
  /** The moment right before the aligned event. */
  at: number;
  /** The ends on the axis, and the aligned position on it. */
  ends: Range;
  zero: number;
}

/** Returns a step with its ends; null if the recording lacks the step, the phase or the axis. */
export function aligned(
  of: OverlaidStep,
  { recording, title }: { recording: Device; title: string },
  alignment: Alignment,
  axis: Axis,
): AlignedStep | null {
  const { steps, phases } = recording;
  if (!steps || of.step >= steps.peak.length) return null;
  const [from, to] = [numberAt(steps.from, of.step) - 1, numberAt(steps.to, of.step) - 1];
  const kind = PHASES.findIndex((name) => name === alignment);
  const phase = phases?.phase.findIndex((one, number) => one === kind && phases.step[number] === of.step) ?? -1;
  if (alignment !== 'step' && phase < 0) return null;
  const at = alignment === 'step' ? from : numberAt(phases!.from, phase);
  const whole = { ...of, recording, title, from, to, at };
  // Moment `n` is drawn from `n` to `n + 1`.
  if (axis === 'events') return { ...whole, ends: [from, to + 1], zero: at };
  if (steps.from_us.length === 0) return null;
  const zero = alignment === 'step' ? numberAt(steps.from_us, of.step) : numberAt(phases!.from_us, phase);
  return { ...whole, ends: [numberAt(steps.from_us, of.step), numberAt(steps.to_us, of.step)], zero };
}

/** Returns the common axis of some steps, relative to the aligned event. */
export function commonAxis(steps: readonly AlignedStep[]): Range {
  const from = Math.min(0, ...steps.map(({ ends, zero }) => ends[0] - zero));
  return [from, Math.max(from + 1, ...steps.map(({ ends, zero }) => ends[1] - zero))];
}

/** The allocated bytes of a step in each pixel of its part of the plot, which begins at `left`; NaN in pixels without a moment. */
export interface Outline {
  left: number;
  values: Float64Array;
}

/** Requests the outline of a step: the highest allocated bytes in each pixel. */
export async function outlineOf(
  { file, device, ends, zero }: AlignedStep,
  [from, to]: Range,
  width: number,
  axis: Axis,
  unwanted: AbortSignal,
): Promise<Outline> {
  const place = (at: number) => Math.round(((at - zero - from) / (to - from)) * width);
  const left = place(ends[0]);
  const window = {
    stacked: 'allocated',
    axis,
    from: ends[0],
    to: Math.max(ends[1], ends[0] + 1),
    width: Math.max(place(ends[1]) - left, 1),
    height: 1,
    low: 0,
    high: null,
    fit_reserved: false,
    only: null,
  } as const;
  return { left, values: valuesOf(await source.picture(file, device, window, unwanted)) };
}

/** Returns the allocated bytes in each pixel column. */
const valuesOf = ({ column, highest }: Picture): Float64Array =>
  Float64Array.from(column, (of) => (of === NONE ? NaN : numberAt(highest.allocated, of)));

/** The first difference of a step from the reference. */
export interface Difference {
  isSame: boolean;
  /** The number of changes of the allocated bytes before the difference. */
  shared: number;
  /** The moments right after the change that differs; null for a step without a further change. */
  moment: number | null;
  otherMoment: number | null;
  /** The change, and that of the reference, in words. */
  change: string;
  otherChange: string;
}

/** Compares two steps from the aligned event on. */
export async function differenceOf(step: AlignedStep, reference: AlignedStep, unwanted: AbortSignal): Promise<Difference> {
  const other = { other_file: reference.file, other_device: reference.device, other_from: reference.at, other_to: reference.to };
  const found = await source.ask(
    step.file,
    step.device,
    { question: 'first_difference', from: step.at, to: step.to, ...other },
    unwanted,
  );
  const [change, otherChange] = await Promise.all([
    changeAt(step, found.moment, unwanted),
    changeAt(reference, found.other_moment, unwanted),
  ]);
  const { is_same: isSame, shared, moment, other_moment: otherMoment } = found;
  return { isSame, shared, moment, otherMoment, change, otherChange };
}

/** Describes the event before a moment: `+4.00 MiB at train.py:12 step`. */
async function changeAt({ file, device }: AlignedStep, moment: number | null, unwanted: AbortSignal): Promise<string> {
  if (moment === null) return 'nothing';
  await needNames(file);
  const events = await source.ask(file, device, { question: 'events', first: moment - 1, count: 1 }, unwanted);
  const isAllocation = ACTIONS[numberAt(events.action, 0)] === 'alloc';
  const size = numberAt(events.bytes, 0);
  const stack = numberAt(events.stack, 0);
  const label = stack === NONE ? NO_STACK : ownLabel(names.value.get(file) ?? null, stack);
  const line = label === NO_STACK || label === '' ? '' : ` at ${label}`;
  return isAllocation ? `${signedBytes(size)}${line}` : `-${bytes(size)}`;
}

/** Returns the default steps of a device: the first, the typical, the highest and the first unusual one. */
export function usualSteps({ steps }: Device): number[] {
  if (!steps) return [];
  const all = [0, typicalStep(steps), steps.highest, steps.first_unusual];
  return [...new Set(all.filter((step) => step !== null))].sort((a, b) => a - b);
}

/** Returns the step with the median peak; the second step if there are too few for a median. */
export const typicalStep = ({ median, peak }: NonNullable<Device['steps']>): number => median ?? Math.min(1, peak.length - 1);

/** Returns the points of a line through an outline, as an SVG path; `yOf` places bytes. */
export function pathOf({ left, values }: Outline, yOf: (bytes: number) => number): string {
  let path = '';
  let last: number | null = null;
  values.forEach((value, x) => {
    if (Number.isNaN(value)) return;
    const y = yOf(value).toFixed(1);
    if (last === null) path = `M${left + x} ${y}`;
    else if (numberAt(values, last) !== value) path += `H${left + x}V${y}`;
    last = x;
  });
  return last === null ? '' : `${path}H${left + last + 1}`;
}
