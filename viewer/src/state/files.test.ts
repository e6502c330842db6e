import { expect, test } from 'vitest';
import { firstDevice } from './files';

const peak = (bytes: number) => ({ bytes, moment: 0 });
const device = (number: number, bytes: number, failedAt: number | null = null, origin_us: number | null = 0) => ({
  device: number,
  origin_us,
  peaks: { requested: peak(0), allocated: peak(bytes), active: peak(0), reserved: peak(0) },
  markers:
    failedAt === null
      ? []
      : [
          { event: 1, time_us: 0, kind: 'snapshot' as const, bytes: 0 },
          { event: 3, time_us: origin_us === null ? null : failedAt, kind: 'oom' as const, bytes: 5 },
        ],
});

test('the default device ran out of memory, or else has the highest peak', () => {
  expect(firstDevice([])).toBe(0);
  expect(firstDevice([device(0, 5), device(1, 9), device(2, 9)])).toBe(1);
  expect(firstDevice([device(0, 9), device(1, 5, 70), device(2, 7)])).toBe(1);
  // The first failure decides; clocks of devices start at their first events.
  expect(firstDevice([device(0, 9), device(1, 5, 70, 1000), device(2, 7, 90, 0)])).toBe(2);
  expect(firstDevice([device(0, 9), device(1, 5, 70, null), device(2, 7, 90)])).toBe(2);
  expect(firstDevice([device(0, 9), device(1, 5, 70, null), device(2, 7, 90, null)])).toBe(1);
  // The host's memory is not a GPU.
  expect(firstDevice([device(-1, 99), device(0, 5)])).toBe(1);
  expect(firstDevice([device(-1, 99)])).toBe(0);
});
