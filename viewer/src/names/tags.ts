// Formats streams, pools, modules and categories as the reports do, and an allocation's tags as names and values.

import { numberAt } from '../numbers/at';
import { SEGMENT_KINDS, type Category, type Purpose, type Segments, type Tags, type Tensor } from '../source/source';

export function poolName(pool: Tags['pool']): string {
  if (!pool) return 'pool not recorded';
  return pool[0] === 0 && pool[1] === 0 ? 'default pool' : `private pool (${pool[0]}, ${pool[1]})`;
}

/** Formats a stream; streams are recorded as addresses. */
export const streamName = (stream: number) => (stream === 0 ? 'default stream' : `stream 0x${stream.toString(16)}`);

/** Formats `default pool, stream 0x3`. */
export const poolText = (tags: Tags | undefined) => `${poolName(tags?.pool ?? null)}, ${streamName(tags?.stream ?? 0)}`;

/** Formats `large` or `large, expandable`. */
export const kindText = ({ kind, expandable }: Pick<Segments, 'kind' | 'expandable'>, i: number) =>
  `${SEGMENT_KINDS[numberAt(kind, i)]}${expandable[i] ? ', expandable' : ''}`;

/** Formats `optimizer state`. */
export const categoryText = (category: Category | null) => (category === null ? 'no category' : category.replaceAll('_', ' '));

/** Formats the allocating module, by its path in the model. */
export const layerText = (layer: string | null) =>
  layer === null ? '(no module)' : layer === '' ? '(the outermost module)' : layer;

/** Whether a text is meaningful: PyTorch writes `N/A` for uncompiled code. */
const isTold = (text: string | null): text is string => text !== null && text !== '' && text !== 'N/A';

/** Returns an allocation's category and its evidence: `gradient: the backward pass allocated and retained it`. */
export const purposeFacts = (purpose: Purpose | undefined): [name: string, value: string][] =>
  purpose ? [['category', `${categoryText(purpose.category)}: ${purpose.because}`]] : [];

/** Returns the tensor in an allocation, if the program described it: its name, type and shape. */
export function tensorFacts(tensor: Tensor | null): [name: string, value: string][] {
  if (!tensor) return [];
  const facts: [string, string][] = [['type and shape', `${tensor.dtype} ${tensor.shape}`]];
  return tensor.name ? [['tensor', tensor.name], ...facts] : facts;
}

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
