import { expect, test } from 'vitest';
import type { ReportMeasuredUse } from '../../source/generated/report';
import { measuredText } from './libraries';

const measured = (over: Partial<ReportMeasuredUse>): ReportMeasuredUse => ({
  time_us: 1,
  used_bytes: 9 * 2 ** 30,
  total_bytes: 80 * 2 ** 30,
  reserved_bytes: 8 * 2 ** 30,
  libraries_bytes: 0,
  rest_bytes: 2 ** 30,
  ...over,
});

test('the count of the driver is shown where the recording has it', () => {
  const text = (over: Partial<ReportMeasuredUse>) => {
    const here = measured(over);
    return measuredText({ device_use: { here, first: here, highest: here } });
  };
  const said = 'The driver says that 9.00 GiB of 80.00 GiB are in use, by all processes.';
  expect(text({})).toBe(said);
  expect(text({ rest_bytes: -(2 ** 20) })).toBe(
    `${said} That is 1.00 MiB less than the sum: managed memory counts wherever it is.`,
  );
  expect(measuredText({ device_use: undefined })).toBe('CUDA contexts and kernels are not included.');
});
