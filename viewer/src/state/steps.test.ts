import { beforeEach, expect, test } from 'vitest';
import type { Device, Recording, Steps } from '../source/source';
import { moment } from './moment';
import { recordings } from './recordings';
import { nextStep, showStep } from './steps';
import { axis, range } from './window';

/** Three steps from event 10 on: of 10, 20 and 2 events. */
const STEPS = {
  from: Uint32Array.of(11, 21, 41),
  to: Uint32Array.of(21, 41, 43),
  from_us: Float64Array.of(100, 200, 400),
  to_us: Float64Array.of(200, 400, 420),
  peak: [5, 9, 5],
  peak_moment: [15, 30, 40],
} as Steps;

beforeEach(() => {
  const peak = { bytes: 9, moment: 30 };
  const device = { events: 60, origin_us: 0, duration_us: 600, peaks: { allocated: peak }, steps: STEPS } as unknown as Device;
  recordings.value = [{ devices: [device] } as Recording];
  axis.value = 'events';
  range.value = moment.value = null;
});

test('a step is shown alone, at its peak, on both axes', () => {
  showStep(0);
  expect([range.value, moment.value]).toEqual([[11, 21], 15]);
  axis.value = 'time';
  showStep(1);
  expect([range.value, moment.value]).toEqual([[200, 400], 30]);
});

test('the key shows the step with the chosen moment, then the next or previous one', () => {
  nextStep(1);
  expect(range.value).toEqual([21, 41]);
  nextStep(-1);
  expect(range.value).toEqual([11, 21]);
  nextStep(-1);
  expect(range.value).toEqual([11, 21]);
  nextStep(1);
  nextStep(1);
  // Two events are too narrow to show. The step's peak is before its first event, which must not lead back.
  expect(range.value).toEqual([40, 44]);
  nextStep(-1);
  expect(range.value).toEqual([21, 41]);
});

test('if several steps are shown, the chosen moment decides, even outside all steps', () => {
  range.value = [12, 43];
  moment.value = 3;
  nextStep(1);
  expect(range.value).toEqual([11, 21]);
  range.value = null;
  moment.value = 59;
  nextStep(1);
  expect(range.value).toEqual([40, 44]);
});

test('without steps nothing moves', () => {
  recordings.value = null;
  nextStep(1);
  showStep(0);
  expect([range.value, moment.value]).toEqual([null, null]);
});
