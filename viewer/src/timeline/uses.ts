// The uses of an allocation, in words.

import type { Uses } from '../source/source';
import { count, duration } from '../text/units';

/** Formats an event and its time, in microseconds after the first event. */
export function when(event: number, us: number | null): string {
  const named = `event ${count(event)}`;
  return us === null ? named : `${named}, ${duration(us)}`;
}

/** Formats the moment of a use, and its time. */
function afterEvent(moment: number, us: number | null): string {
  return moment === 0 ? 'before the first event' : `after ${when(moment - 1, us)}`;
}

/** Formats the accesses of an allocation by kernels, libraries and copies: names and values. */
export function usesFacts({ count: uses, first, last, longest_idle, ...times }: Uses): [name: string, value: string][] {
  const facts: [string, string][] = [['uses', uses === 0 ? 'none' : count(uses)]];
  if (first !== null) facts.push(['first use', afterEvent(first, times.first_us)]);
  if (last !== null) facts.push(['last use', afterEvent(last, times.last_us)]);
  if (longest_idle) {
    const [from, to] = longest_idle;
    const time = times.longest_idle_us === null ? '' : ` (${duration(times.longest_idle_us)})`;
    facts.push(['longest idle', `${count(to - from)} events${time}, ${afterEvent(from, null)}`]);
  }
  return facts;
}
