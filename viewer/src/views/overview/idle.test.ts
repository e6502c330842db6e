import { expect, test } from 'vitest';
import type { ReportIdle, ReportIdleFinding } from '../../source/generated/report';
import { idleRows } from './idle';

const finding = (kind: string, bytes: number) => ({ kind, bytes }) as ReportIdleFinding;

test('findings keep the numbers of the report', () => {
  const findings = [finding('never_used', 9), finding('freed_late', 5), finding('between_uses', 7)];
  const texts = { told: [], left_out: null, findings: findings.map((_, i) => [`line ${i}`, `text ${i}`] as [string, string]) };
  const { mendable, between } = idleRows({ findings } as unknown as ReportIdle, texts);
  expect(mendable.map(({ number, bytes, line }) => [number, bytes, line])).toEqual([
    [1, 9, 'line 0'],
    [2, 5, 'line 1'],
  ]);
  expect(between.map(({ number, text }) => [number, text])).toEqual([[3, 'text 2']]);
});
