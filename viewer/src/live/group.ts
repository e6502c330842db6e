// What is live at a moment, added up by stack, line, function, file, category, layer, stream or pool.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, ORIGINS, type Category, type Live, type Names, type Tables, type Tags } from '../source/source';
import type { GroupBy } from '../state/grouping';
import { NO_STACK, isNative, isPlace, ownFrame, shortFile, stackLabel, stackText } from './stacks';

export interface Group {
  /** Identifies the group: the same text in any recording. */
  key: string;
  label: string;
  bytes: number;
  requested: number;
  count: number;
  /** The stack that holds most of it, or NONE. */
  stack: number;
  /** Whether the search finds some of it. */
  found: boolean;
}

export function poolName(pool: Tags['pool']): string {
  if (!pool) return 'pool not recorded';
  return pool[0] === 0 && pool[1] === 0 ? 'default pool' : `pool ${pool[0]}.${pool[1]}`;
}

export const streamName = (stream: number) => (stream === 0 ? 'default stream' : `stream ${stream}`);

/** `optimizer state`. */
export const categoryText = (category: Category | null) => (category === null ? 'no category' : category.replaceAll('_', ' '));

/** The module that made something, by its path in the model. */
export const layerText = (layer: string | null) =>
  layer === null ? '(no module)' : layer === '' ? '(the outermost module)' : layer;

interface Name {
  key: string;
  label: string;
}

type Namer = (stack: number, tags: number, purpose: number) => Name;

function namer(by: GroupBy, names: Names, { tags, purposes }: Tables): Namer {
  const same = (text: string) => ({ key: text, label: text });
  const byFrame =
    (text: (frame: number) => string): Namer =>
    (stack) => {
      const frame = ownFrame(names, stack);
      return same(frame === NONE ? NO_STACK : text(frame));
    };
  switch (by) {
    case 'stack':
      return (stack) => ({ key: stackText(names, stack) || NO_STACK, label: stackLabel(names, stack) });
    case 'line':
      return byFrame((f) => names.label[f] ?? '');
    case 'function':
      // The names of compiled functions are whole signatures; their labels are short.
      return byFrame((f) => (isNative(names, f) ? entryAt(names.label, f) : `${shortFile(names, f)} ${names.function[f]}`));
    case 'file':
      return byFrame((f) => (isPlace(entryAt(names.file, f)) ? shortFile(names, f) : 'compiled code'));
    case 'category':
      return (_, __, p) => same(categoryText(purposes?.[p]?.category ?? null));
    case 'layer':
      return (_, t) => same(layerText(tags[t]?.layer ?? null));
    case 'stream':
      return (_, t) => same(streamName(tags[t]?.stream ?? 0));
    case 'pool':
      return (_, t) => same(poolName(tags[t]?.pool ?? null));
  }
}

/**
 * Whether groups are made by code. Memory that was live before recording has then groups of its own: its stack may be that of its
 * free, not of its allocation.
 */
const isCode = (by: GroupBy) => by === 'stack' || by === 'line' || by === 'function' || by === 'file';

/**
 * Groups of what is live, most bytes first. Their bytes sum to the counters' allocated bytes. `matches` are the entries
 * that a search finds.
 */
export function group(live: Live, by: GroupBy, names: Names, tables: Tables, matches: Uint8Array | null = null): Group[] {
  const name = namer(by, names, tables);
  const groups = new Map<string, Group & { most: number }>();
  for (let i = 0; i < live.stack.length; i++) {
    const [stack, bytes] = [numberAt(live.stack, i), numberAt(live.bytes, i)];
    const [requested, count] = [numberAt(live.requested, i), numberAt(live.count, i)];
    let { key, label } = name(stack, numberAt(live.tags, i), numberAt(live.purpose, i));
    const origin = ORIGINS[numberAt(live.origin, i)];
    if (origin && isCode(by)) {
      label = label === NO_STACK ? origin : `${label} (${origin})`;
      key = `${origin}\n${key}`;
    }
    const known = groups.get(key);
    if (!known) {
      const found = matches?.[i] === 1;
      groups.set(key, { key, label, bytes, requested, count, stack, found, most: bytes });
      continue;
    }
    known.bytes += bytes;
    known.requested += requested;
    known.count += count;
    known.found ||= matches?.[i] === 1;
    if (bytes > known.most) {
      known.most = bytes;
      known.stack = stack;
    }
  }
  return [...groups.values()].sort((a, b) => b.bytes - a.bytes || (a.key < b.key ? -1 : 1));
}

export function sum(column: Iterable<number>): number {
  let total = 0;
  for (const n of column) total += n;
  return total;
}
