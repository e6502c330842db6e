// Stream, pool, category and texts of an allocation, as names and values to show.

import type { Tags } from '../source/source';
import { poolName, streamName } from './group';

/** Whether a text says something: PyTorch writes `N/A` where nothing is compiled. */
const isTold = (text: string | null): text is string => text !== null && text !== '' && text !== 'N/A';

export function tagFacts(tags: Tags): [name: string, value: string][] {
  const facts: [string, string][] = [
    ['stream', streamName(tags.stream)],
    ['pool', poolName(tags.pool)],
  ];
  if (isTold(tags.category)) facts.push(['category', tags.category]);
  if (isTold(tags.compile_context)) facts.push(['compile context', tags.compile_context]);
  if (isTold(tags.user_metadata)) facts.push(['user metadata', tags.user_metadata]);
  return facts;
}
