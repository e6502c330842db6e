// From what a query says to what the source is asked: texts are searched here, and the numbers of what they name are sent.

import { poolName } from '../names/tags';
import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Category, type Names, type Query, type Regions, type Steps, type Tables, type Tags } from '../source/source';
import type { FrameField, Numbers, Parsed, Sought, TagField, Term } from './language';

/** What texts are searched in. */
export interface Known extends Tables {
  names: Names;
  /** Null until they are known, and where there are none. */
  steps: Steps | null;
  regions: Regions | null;
}

/** Whether a text has what is sought. */
function finder({ text, isPattern }: Sought): (within: string) => boolean {
  if (!isPattern) return (within) => within.toLowerCase().includes(text);
  const pattern = new RegExp(text, 'i');
  return (within) => pattern.test(within);
}

const positions = <T>(all: ArrayLike<T>, holds: (one: T, at: number) => boolean): number[] => {
  const found: number[] = [];
  for (let at = 0; at < all.length; at += 1) if (holds(all[at]!, at)) found.push(at);
  return found;
};

/** The stacks of which a frame, or the frame that names them, has in `field` what is sought. */
function stacksWith(names: Names, field: FrameField, sought: Sought): number[] {
  const holds = finder(sought);
  const text = {
    any: (i: number) => `${names.label[i]}\n${names.file[i]}:${names.line[i]} ${names.function[i]}`,
    file: (i: number) => entryAt(names.file, i),
    function: (i: number) => entryAt(names.function, i),
    line: (i: number) => entryAt(names.label, i),
  }[field];
  const frames = Uint8Array.from(names.label, (_, i) => (holds(text(i)) ? 1 : 0));
  if (field === 'line') return positions(names.own, (own) => own !== NONE && frames[own] === 1);
  let at = 0;
  return positions(names.ends, (end) => {
    let found = 0;
    for (; at < end; at += 1) found |= numberAt(frames, numberAt(names.frames, at));
    return found === 1;
  });
}

/** The name of a pool as it can be typed: `private pool 1.0`. */
const typed = (pool: string) => pool.replace(/[()]/g, '').replace(/(\d), ?(\d)/, '$1.$2');

function tagsWith(tags: readonly Tags[], field: TagField, sought: Sought): number[] {
  const holds = finder(sought);
  const { text } = sought;
  const tells: Record<TagField, (of: Tags) => boolean> = {
    stream: ({ stream }) => stream === Number(text.replace(/^default( stream)?$/, '0').replace(/^stream /, '')),
    pool: ({ pool }) => {
      if (sought.isPattern) return holds(poolName(pool));
      if (/^\d+\.\d+$/.test(text)) return pool?.join('.') === text;
      return pool === null ? text === 'none' : typed(poolName(pool)).toLowerCase().includes(typed(text));
    },
    layer: ({ layer }) => holds(layer ?? ''),
    context: ({ compile_context: context }) => holds(context ?? ''),
    metadata: ({ user_metadata: metadata }) => holds(metadata ?? ''),
  };
  return positions(tags, tells[field]);
}

const holdsCategory = (sought: Sought) => {
  const holds = finder(sought.isPattern ? sought : { ...sought, text: sought.text.replaceAll(' ', '_') });
  return (category: Category) => holds(category);
};

/** The first and the last moment of what is allocated within spans of the axis, whose first moment is before anything happened in them. */
const within = ({ from, to }: { from: Uint32Array; to: Uint32Array }, numbers: number[], skipped: number): Numbers[] =>
  numbers.map((i): Numbers => [numberAt(from, i) + skipped, numberAt(to, i) - 1 + skipped]).filter(([a, b]) => a <= b);

/** The moments right after these events. */
const momentsAfter = ([from, to]: Numbers): Numbers[] =>
  from <= to ? [[Math.min(from + 1, NONE - 1), Math.min(to + 1, NONE - 1)]] : [];

/** The query for the source. Null where nothing is asked for. */
export function compile({ term }: Parsed, known: Known): Query | null {
  return term && compiled(term, known);
}

/** Several queries as one. Lists of stacks may be long: of several one is made. */
function together(is: 'all' | 'any', of: Query[]): Query {
  const lists = of.flatMap((one) => (one.is === 'stacks' ? [one.stacks] : []));
  if (lists.length < 2) return { is, of };
  const others = of.filter((one) => one.is !== 'stacks');
  const merged =
    is === 'any'
      ? [...new Set(lists.flat())]
      : lists.reduce((both, list) => {
          const also = new Set(list);
          return both.filter((stack) => also.has(stack));
        });
  const stacks: Query = { is: 'stacks', stacks: merged };
  return others.length === 0 ? stacks : { is, of: [...others, stacks] };
}

function compiled(term: Term, known: Known): Query {
  switch (term.kind) {
    case 'all':
    case 'any':
      return together(
        term.kind,
        term.of.map((one) => compiled(one, known)),
      );
    case 'not':
      return { is: 'not', of: compiled(term.of, known) };
    case 'frame':
      return { is: 'stacks', stacks: stacksWith(known.names, term.field, term.sought) };
    case 'tags':
      return { is: 'tags', tags: tagsWith(known.tags, term.field, term.sought) };
    case 'category': {
      const holds = holdsCategory(term.sought);
      return { is: 'purposes', purposes: positions(known.purposes ?? [], ({ category }) => holds(category)) };
    }
    case 'region': {
      const { regions } = known;
      if (!regions) return { is: 'allocated', spans: [] };
      const named = regions.names.map(finder(term.sought));
      const runs = positions(regions.name, (name) => entryAt(named, name));
      return { is: 'allocated', spans: within(regions, runs, 1) };
    }
    case 'step': {
      const [from, to] = term.numbers;
      const { steps } = known;
      // People count steps from 1.
      const asked = steps ? positions(steps.from, (_, i) => from <= i + 1 && i + 1 <= to) : [];
      return { is: 'allocated', spans: steps ? within(steps, asked, 0) : [] };
    }
    case 'leak':
      return { is: 'leak', leak: term.leak - 1 };
    case 'address':
      return { is: 'address', address: term.address, version: term.version };
    case 'size':
      return { is: 'size', min: term.min, max: term.max };
    case 'allocated':
      return { is: 'allocated', spans: term.events === 'before' ? [[0, 0]] : momentsAfter(term.events) };
    case 'freed':
      return { is: 'freed', spans: term.events === 'never' ? [[NONE, NONE]] : momentsAfter(term.events) };
  }
}

/** Whether a query may find what is for `category`, as far as its words about categories tell. */
export const findsCategory = ({ term }: Parsed, category: Category): boolean => term === null || told(term, category) !== false;

/** Whether a term finds all or nothing of what is for `category`; null where other things tell. */
function told(term: Term, category: Category): boolean | null {
  switch (term.kind) {
    case 'category':
      return holdsCategory(term.sought)(category);
    case 'not': {
      const inner = told(term.of, category);
      return inner === null ? null : !inner;
    }
    case 'all':
    case 'any': {
      const decides = term.kind === 'any';
      const parts = term.of.map((one) => told(one, category));
      if (parts.includes(decides)) return decides;
      return parts.includes(null) ? null : !decides;
    }
    default:
      return null;
  }
}
