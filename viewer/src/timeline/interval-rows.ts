// The allocations and frees of groups in an interval, as table rows.

import { numberAt } from '../numbers/at';
import type { IntervalAnswer, GroupsOfInterval } from '../source/source';

/** The quantities that the table can show. */
export const MEASURES = {
  allocated: 'allocated',
  freed: 'freed',
  temporary: 'temporary',
  survived: 'retained',
  at_highest: 'held at the peak',
  after: 'held at the end',
} as const;
export type Measure = keyof typeof MEASURES;

export interface IntervalRow {
  key: string;
  label: string;
  /** The stack that allocated most of it. */
  stack: number;
  /** The number of blocks that it allocated. */
  count: number;
  now: Record<Measure, number>;
  /** The same in the compared interval. */
  before: Record<Measure, number> | null;
}

export function rowsOf({ key, label, stack, now, before }: IntervalAnswer): IntervalRow[] {
  const measured = (part: GroupsOfInterval, i: number) =>
    Object.fromEntries(Object.keys(MEASURES).map((name) => [name, numberAt(part[name as Measure], i)])) as Record<
      Measure,
      number
    >;
  return key.map((one, i) => ({
    key: one,
    label: label[i] ?? '',
    stack: numberAt(stack, i),
    count: numberAt(now.count, i),
    now: measured(now, i),
    before: before && measured(before, i),
  }));
}
