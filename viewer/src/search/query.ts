// The language of the search box. A query is a list of words, all of which must match:
//
//   attention            any frame of the stack: file, line or function
//   "two words"          the same with spaces
//   file:loss.py         any frame in such a file; function:forward likewise
//   0x7f3a00200000       the blocks in which this address lies
//   b7f3a00200000_2      a block as memory_viz names it: its address, and which of the allocations there it is; s.. is a segment
//   >=10MiB  <1KiB       sizes of blocks
//   category:gradient    what memory is for; -category:gradient all but that
//   stream:0x3  pool:1.0  pool:default  layer:..  context:..  metadata:..; with - before it all but those

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Category, type Found, type Items, type Names, type Query, type Tables, type Tags } from '../source/source';

type FrameField = 'any' | 'file' | 'function';

type Term =
  | { kind: 'frame'; field: FrameField; text: string }
  | { kind: 'tags'; field: string; text: string; not: boolean }
  | { kind: 'category'; text: string; not: boolean }
  | { kind: 'address'; address: number; version: number | null }
  | { kind: 'size'; min: number | null; max: number | null };

export interface Parsed {
  terms: Term[];
  /** For each word that was not understood the reason, to show. */
  unclear: string[];
}

const UNITS = new Map(
  Object.entries({
    '': 1,
    b: 1,
    k: 2 ** 10,
    kib: 2 ** 10,
    kb: 1e3,
    m: 2 ** 20,
    mib: 2 ** 20,
    mb: 1e6,
    g: 2 ** 30,
    gib: 2 ** 30,
    gb: 1e9,
    t: 2 ** 40,
    tib: 2 ** 40,
    tb: 1e12,
  }),
);

/** Bytes of a size such as `1.5MiB`; `MB` is decimal, `M` is not. Null where the text is no size. */
export function parseSize(text: string): number | null {
  const [, value, unit] = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text) ?? [];
  const scale = unit === undefined ? undefined : UNITS.get(unit.toLowerCase());
  return scale === undefined ? null : Math.round(Number(value) * scale);
}

const TAG_FIELDS = new Map(
  Object.entries<(tags: Tags, text: string) => boolean>({
    stream: (tags, text) => tags.stream === Number(text),
    pool: (tags, text) => {
      if (tags.pool === null) return text === 'none';
      return tags.pool.join('.') === text || (text === 'default' && tags.pool[0] === 0 && tags.pool[1] === 0);
    },
    layer: (tags, text) => (tags.layer ?? '').toLowerCase().includes(text),
    context: (tags, text) => (tags.compile_context ?? '').toLowerCase().includes(text),
    metadata: (tags, text) => (tags.user_metadata ?? '').toLowerCase().includes(text),
  }),
);

/** How the values of `stream` and `pool` are written, and how to say so. The other fields take any part of a text. */
const FORMS = new Map<string, [RegExp, string]>([
  ['stream', [/^(0x[0-9a-f]+|\d+)$/, 'a number, as in stream:0x3']],
  ['pool', [/^(\d+\.\d+|default|none)$/, 'two numbers, as in pool:1.0, or pool:default, or pool:none']],
]);

/** The words of a query. Quotes hold words together, and `>= 10 MiB` is one word just as `>=10MiB` is. */
export function words(text: string): string[] {
  return text.match(/[<>]=?\s*\d[\d.]*(?:\s*(?:[kmgt](?:i?b)?|b))?(?=[\s<>]|$)|-?[a-z]+:"[^"]*"?|"[^"]*"?|\S+/gi) ?? [];
}

const unquoted = (text: string) => text.replaceAll('"', '').toLowerCase();

/** An address as memory_viz writes it: `b7f3a00200000_2`, `b'7f3a00200000_2'`. Shorter ones could be names of functions. */
const NAMED = /^(?:(0x|[bs])?'?)([0-9a-f]{8,})_(\d+)'?$/i;

/** What a word asks for; a text says why it was not understood. */
function term(word: string): Term | string {
  // A size begins with < or >. `<module>` is none: Python names the function so that is a whole file.
  const [, sign, size = ''] = /^([<>](?:=|(?=[\s\d.]|$)))\s*(.*)$/.exec(word) ?? [];
  if (sign !== undefined) {
    const bytes = parseSize(size);
    if (bytes === null) return `${word}: a size is a number with a unit, as in ${sign}10MiB`;
    if (sign[0] === '>') return { kind: 'size', min: sign === '>' ? bytes + 1 : bytes, max: null };
    return { kind: 'size', min: null, max: sign === '<' ? Math.max(bytes - 1, 0) : bytes };
  }
  if (/^0x/i.test(word) || NAMED.test(word)) {
    const [, letter, hex, version] = NAMED.exec(word) ?? /^0(x)([0-9a-f]+)$/i.exec(word) ?? [];
    const address = hex === undefined ? NaN : parseInt(hex, 16);
    if (!Number.isSafeInteger(address)) return `${word}: not an address`;
    // The number behind a segment counts segments, not allocations: the address alone is searched.
    const isSegment = letter?.toLowerCase() === 's';
    return { kind: 'address', address, version: version === undefined || isSegment ? null : Number(version) };
  }
  const [, minus, name, value = ''] = /^(-?)([a-z]+):(?![:\\/])(.*)$/i.exec(word) ?? [];
  const field = name?.toLowerCase();
  const not = minus === '-';
  const isFrame = field === 'file' || field === 'function';
  if ((isFrame && !not) || field === 'category' || (field !== undefined && TAG_FIELDS.has(field))) {
    const text = unquoted(value);
    if (text === '') return `${field}: needs a value`;
    if (field === 'file' || field === 'function') return { kind: 'frame', field, text };
    if (field === 'category') return { kind: 'category', text: text.replaceAll(' ', '_'), not };
    const form = FORMS.get(field);
    if (form && !form[0].test(text)) return `${word}: ${form[1]}`;
    return { kind: 'tags', field, text, not };
  }
  return { kind: 'frame', field: 'any', text: unquoted(word) };
}

export function parse(text: string): Parsed {
  let address: string | null = null;
  const read = words(text).map((word) => {
    const one = term(word);
    if (typeof one === 'string' || one.kind !== 'address') return one;
    const named = `${one.address}_${one.version}`;
    address ??= named;
    return address === named ? one : `${word}: one address at a time`;
  });
  return {
    terms: read.filter((t) => typeof t !== 'string' && !(t.kind === 'frame' && t.text === '')) as Term[],
    unclear: read.filter((t) => typeof t === 'string'),
  };
}

/** 1 for each frame whose field holds a text. */
function framesWith(names: Names, field: FrameField, text: string): Uint8Array {
  const holds = (i: number) => {
    if (field === 'file') return entryAt(names.file, i).toLowerCase().includes(text);
    if (field === 'function') return entryAt(names.function, i).toLowerCase().includes(text);
    return `${names.label[i]}\n${names.file[i]}:${names.line[i]} ${names.function[i]}`.toLowerCase().includes(text);
  };
  return Uint8Array.from(names.label, (_, i) => (holds(i) ? 1 : 0));
}

/** 1 for each stack that has one of the frames. */
function stacksWith(names: Names, frames: Uint8Array): Uint8Array {
  let at = 0;
  return Uint8Array.from(names.ends, (end) => {
    let found = 0;
    for (; at < end; at += 1) found |= numberAt(frames, numberAt(names.frames, at));
    return found;
  });
}

const positions = (flags: Uint8Array): number[] => {
  const found: number[] = [];
  flags.forEach((flag, i) => flag && found.push(i));
  return found;
};

/** Whether a query finds what is for `category`, as far as its words are about categories. */
export const findsCategory = ({ terms }: Parsed, category: Category): boolean =>
  terms.every((t) => t.kind !== 'category' || category.includes(t.text) !== t.not);

/** The query for the source: the numbers of the stacks, tags and purposes that match. Null where nothing is asked for. */
export function compile(parsed: Parsed, names: Names, { tags, purposes }: Tables): Query | null {
  if (parsed.terms.length === 0) return null;
  const query: Query = { stacks: null, tags: null, purposes: null, address: null, version: null, min: null, max: null };
  let stacks: Uint8Array | null = null;
  let tagged: boolean[] | null = null;
  for (const t of parsed.terms) {
    switch (t.kind) {
      case 'frame': {
        const having = stacksWith(names, framesWith(names, t.field, t.text));
        stacks = stacks ? stacks.map((flag, i) => flag & numberAt(having, i)) : having;
        break;
      }
      case 'tags': {
        const before: boolean[] | null = tagged;
        tagged = tags.map((one, i) => (before?.[i] ?? true) && TAG_FIELDS.get(t.field)!(one, t.text) !== t.not);
        break;
      }
      case 'category': {
        const found = (purposes ?? []).map((purpose) => (findsCategory(parsed, purpose.category) ? 1 : 0));
        query.purposes = positions(Uint8Array.from(found));
        break;
      }
      case 'address':
        query.address = t.address;
        query.version = t.version;
        break;
      case 'size':
        if (t.min !== null) query.min = Math.max(query.min ?? 0, t.min);
        if (t.max !== null) query.max = Math.min(query.max ?? Infinity, t.max);
        break;
    }
  }
  if (stacks) query.stacks = positions(stacks);
  if (tagged) query.tags = positions(Uint8Array.from(tagged, (flag) => (flag ? 1 : 0)));
  return query;
}

/**
 * 1 for each item of a picture that matches the query. Which of several allocations at one address is meant only the answer to the
 * query tells: `found`.
 */
export function matching(query: Query, items: Items, found: Pick<Found, 'id'> | null): Uint8Array {
  const stacks = query.stacks && new Set(query.stacks);
  const tags = query.tags && new Set(query.tags);
  const purposes = query.purposes && new Set(query.purposes);
  const { address, min, max } = query;
  return Uint8Array.from(items.id, (_, i) => {
    const [bytes, begin] = [numberAt(items.size, i), numberAt(items.address, i)];
    const matches =
      (stacks === null || stacks.has(numberAt(items.stack, i))) &&
      (tags === null || tags.has(numberAt(items.tags, i))) &&
      (purposes === null || purposes.has(items.purpose[i] ?? NONE)) &&
      (query.version === null || (found?.id.includes(numberAt(items.id, i)) ?? false)) &&
      (address === null || (address >= begin && address < begin + Math.max(bytes, 1))) &&
      (min === null || bytes >= min) &&
      (max === null || bytes <= max);
    return matches ? 1 : 0;
  });
}
