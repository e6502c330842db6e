// What is known of an allocation besides numbers and a stack, as names and values to show.

import type { Purpose, Tags } from '../source/source';
import { categoryText, layerText, poolName, streamName } from './group';

/** Whether a text says something: PyTorch writes `N/A` where nothing is compiled. */
const isTold = (text: string | null): text is string => text !== null && text !== '' && text !== 'N/A';

/** What an allocation is for, and why that is said: `gradient: the backward pass left it behind`. */
export const purposeFacts = (purpose: Purpose | undefined): [name: string, value: string][] =>
  purpose ? [['category', `${categoryText(purpose.category)}: ${purpose.because}`]] : [];

export function tagFacts(tags: Tags): [name: string, value: string][] {
  const facts: [string, string][] = [
    ['stream', streamName(tags.stream)],
    ['pool', poolName(tags.pool)],
  ];
  if (tags.layer !== null) facts.push(['layer', layerText(tags.layer)]);
  if (isTold(tags.recorded_category)) facts.push(['category as recorded', tags.recorded_category]);
  if (isTold(tags.compile_context)) facts.push(['compile context', tags.compile_context]);
  if (isTold(tags.user_metadata)) facts.push(['user metadata', tags.user_metadata]);
  return facts;
}
