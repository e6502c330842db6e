// The language of the search box. Words beside each other must all match; OR, NOT and parentheses put them together.
//
//   attention            any frame of the stack: file, line or function
//   "two words"          the same with spaces; /att.*(q|k)/ a pattern
//   file:loss.py         any frame in such a file; function:forward likewise; line:train.py:31 the line that the tables name
//   0x7f3a00200000       the blocks in which this address lies
//   b7f3a00200000_2      a block as memory_viz names it: its address, and which of the allocations there it is; s.. is a segment
//   >=10MiB  <1KiB       sizes of blocks; 512MiB and =512MiB within half a percent
//   category:gradient    what memory is for
//   stream:0x3  pool:1.0  pool:default  layer:..  context:..  metadata:..
//   step:2  region:backward  allocated:>1200  freed:never  leak:1
//   -word  NOT word      all but those;  a OR b;  (a OR b) c

export type FrameField = 'any' | 'file' | 'function' | 'line';
export type TagField = 'stream' | 'pool' | 'layer' | 'context' | 'metadata';

/** A text to find within others, without regard to case; or a pattern. */
export interface Sought {
  text: string;
  isPattern: boolean;
}

/** Whole numbers from one to another, both included. */
export type Numbers = [from: number, to: number];

/** What a query asks for: one condition, or several put together. */
export type Term =
  | { kind: 'all' | 'any'; of: Term[] }
  | { kind: 'not'; of: Term }
  | { kind: 'frame'; field: FrameField; sought: Sought }
  | { kind: 'tags'; field: TagField; sought: Sought }
  | { kind: 'category' | 'region'; sought: Sought }
  | { kind: 'address'; address: number; version: number | null }
  | { kind: 'size'; min: number; max: number | null }
  | { kind: 'step'; numbers: Numbers }
  /** The number of a leak, from 1. */
  | { kind: 'leak'; leak: number }
  /** By numbers of events; `before` is before recording began, `never` what was not freed. */
  | { kind: 'allocated'; events: Numbers | 'before' }
  | { kind: 'freed'; events: Numbers | 'never' };

export interface Parsed {
  /** Null where nothing is asked for. */
  term: Term | null;
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

export interface Token {
  kind: 'word' | '(' | ')' | 'and' | 'or' | 'not';
  /** As it was typed. */
  text: string;
}

const QUOTED = '"[^"]*"?';
const PATTERN = String.raw`/(?:[^/\\\n]|\\.)+/(?=[\s)]|$)`;
/** A word by its form; `>= 10 MiB` is one word just as `>=10MiB` is. */
const WORD = new RegExp(
  [
    String.raw`(?:[<>]=?|=)\s*\d[\d.]*(?:\s*(?:[kmgt](?:i?b)?|b))?(?=[\s<>()]|$)`,
    String.raw`\d[\d.]*\s*[kmgt]i?b(?=[\s()]|$)`,
    `[a-z_]+:(?:${QUOTED}|${PATTERN})`,
    PATTERN,
    QUOTED,
    String.raw`\S+`,
  ].join('|'),
  'yi',
);
const OPERATORS = { AND: 'and', OR: 'or', NOT: 'not' } as const;
/** A minus before a word, and not one that is a part of it, as in `->`. */
const MINUS = /-(?=["(/\w]|[<>=]=?\s*\d)/y;

const occurrences = (text: string, of: string) => text.split(of).length - 1;

/** The words of a query, and what stands between them. Quotes hold words together. */
export function tokens(text: string): Token[] {
  const found: Token[] = [];
  let open = 0;
  for (let at = 0; at < text.length; ) {
    const rest = text.charAt(at);
    if (/\s/.test(rest)) {
      at += 1;
      continue;
    }
    MINUS.lastIndex = at;
    if (rest === '(' || (rest === ')' && open > 0) || MINUS.test(text)) {
      if (rest !== '-') open += rest === '(' ? 1 : -1;
      found.push({ kind: rest === '-' ? 'not' : (rest as '(' | ')'), text: rest });
      at += 1;
      continue;
    }
    WORD.lastIndex = at;
    let word = WORD.exec(text)?.[0] ?? rest;
    // Names in C++ have parentheses of their own.
    for (let closing = open; closing > 0 && word.endsWith(')') && occurrences(word, ')') > occurrences(word, '('); closing -= 1)
      word = word.slice(0, -1);
    found.push({ kind: Object.hasOwn(OPERATORS, word) ? OPERATORS[word as keyof typeof OPERATORS] : 'word', text: word });
    at += word.length;
  }
  return found;
}

const unquoted = (text: string) => text.replaceAll('"', '').toLowerCase();

/** What a word or the value of a field seeks; a text says why it cannot. */
function soughtBy(word: string): Sought | string {
  const [, pattern] = /^\/(.+)\/$/.exec(word) ?? [];
  if (pattern === undefined) return { text: unquoted(word), isPattern: false };
  try {
    new RegExp(pattern, 'i');
  } catch {
    return `${word}: this is no regular expression`;
  }
  return { text: pattern, isPattern: true };
}

/** An address as memory_viz writes it: `b7f3a00200000_2`, `b'7f3a00200000_2'`. Shorter ones could be names of functions. */
const NAMED = /^(?:(0x|[bs])?'?)([0-9a-f]{8,})_(\d+)'?$/i;

/** By how much a size may differ that is given without a sign. */
const ABOUT = 0.005;

/** `3`, `3..7`, `>3`, `>=3`, `<7`, `<=7`; null where a text is none of them. */
function numbersOf(text: string): Numbers | null {
  const [, from, to] = /^(\d+)(?:\.\.(\d+))?$/.exec(text) ?? [];
  if (from !== undefined) return [Number(from), Number(to ?? from)];
  const [, sign, bound] = /^([<>]=?)(\d+)$/.exec(text) ?? [];
  if (sign === undefined) return null;
  const at = Number(bound);
  if (sign[0] === '>') return [sign === '>' ? at + 1 : at, Infinity];
  return [0, sign === '<' ? at - 1 : at];
}

const NUMBERS = 'a number, as in';

/** What a field asks for; a text says why its value makes no sense. */
type Field = (value: string, sought: Sought) => Term | string;

const frame =
  (field: FrameField): Field =>
  (_, sought) => ({ kind: 'frame', field, sought });
const tags =
  (field: TagField): Field =>
  (_, sought) => ({ kind: 'tags', field, sought });

const FIELDS = new Map(
  Object.entries<Field>({
    file: frame('file'),
    function: frame('function'),
    line: frame('line'),
    category: (_, sought) => ({ kind: 'category', sought }),
    layer: tags('layer'),
    region: (_, sought) => ({ kind: 'region', sought }),
    step(value) {
      const numbers = numbersOf(value);
      return numbers ? { kind: 'step', numbers } : `${NUMBERS} step:2 or step:2..4`;
    },
    leak(value) {
      const leak = Number(value);
      return /^\d+$/.test(value) && leak > 0 ? { kind: 'leak', leak } : `${NUMBERS} leak:1, by the order of the report`;
    },
    allocated(value) {
      const events = value === 'before' ? value : numbersOf(value);
      return events ? { kind: 'allocated', events } : `${NUMBERS} allocated:>1200 or allocated:10..20, or allocated:before`;
    },
    freed(value) {
      const events = value === 'never' ? value : numbersOf(value);
      return events ? { kind: 'freed', events } : `${NUMBERS} freed:>1200 or freed:10..20, or freed:never`;
    },
    stream(value, sought) {
      const isOne = /^(0x[0-9a-f]+|\d+|default)$/.test(value) || /stream/.test(value);
      return isOne ? tags('stream')(value, sought) : `${NUMBERS} stream:0x3, or stream:default`;
    },
    pool(value, sought) {
      return /^[\d.]*$/.test(value) && !/^\d+\.\d+$/.test(value)
        ? 'two numbers, as in pool:1.0, or a name, as in pool:default, or pool:none'
        : tags('pool')(value, sought);
    },
    context: tags('context'),
    metadata: tags('metadata'),
  }),
);

export const FIELD_NAMES = [...FIELDS.keys()];

/** What a word asks for; a text says why it was not understood. */
function termOf(word: string): Term | string {
  // A size begins with < or >. `<module>` is none: Python names the function so that is a whole file.
  const [, sign, size = ''] = /^([<>](?:=|(?=[\s\d.]|$))|=(?=\s*\d))\s*(.*)$/.exec(word) ?? [];
  if (sign !== undefined) {
    const bytes = parseSize(size);
    if (bytes === null) return `${word}: a size is a number with a unit, as in ${sign}10MiB`;
    if (sign === '=') return about(bytes);
    if (sign[0] === '>') return { kind: 'size', min: sign === '>' ? bytes + 1 : bytes, max: null };
    return { kind: 'size', min: 0, max: sign === '<' ? Math.max(bytes - 1, 0) : bytes };
  }
  const bare = /^[\d.]+\s*[kmgt]i?b$/i.test(word) ? parseSize(word) : null;
  if (bare !== null) return about(bare);
  if (/^0x/i.test(word) || NAMED.test(word)) {
    const [, letter, hex, version] = NAMED.exec(word) ?? /^0(x)([0-9a-f]+)$/i.exec(word) ?? [];
    const address = hex === undefined ? NaN : parseInt(hex, 16);
    if (!Number.isSafeInteger(address)) return `${word}: not an address`;
    // The number behind a segment counts segments, not allocations: the address alone is searched.
    const isSegment = letter?.toLowerCase() === 's';
    return { kind: 'address', address, version: version === undefined || isSegment ? null : Number(version) };
  }
  const [, name, value = ''] = /^([a-z_]+):(.*)$/i.exec(word) ?? [];
  const field = name === undefined ? undefined : FIELDS.get(name.toLowerCase());
  // `c10::alloc` and `http://..` have no field.
  if (name !== undefined && !value.startsWith(':') && (field || !/^[\\/]/.test(value))) {
    if (!field) return `there is no field ${name}; fields are ${FIELD_NAMES.join(', ')} ("${word}" in quotes is text)`;
    const sought = soughtBy(value);
    if (typeof sought === 'string') return sought;
    if (sought.text === '') return `${name}: needs a value`;
    const term = field(sought.text, sought);
    return typeof term === 'string' ? `${word}: ${term}` : term;
  }
  const sought = soughtBy(word);
  return typeof sought === 'string' ? sought : { kind: 'frame', field: 'any', sought };
}

const about = (bytes: number): Term => ({
  kind: 'size',
  min: Math.ceil(bytes * (1 - ABOUT)),
  max: Math.floor(bytes * (1 + ABOUT)),
});

/** The deepest that parentheses may lie within each other. */
const DEEPEST = 12;

const together = (kind: 'all' | 'any', of: Term[]): Term | null => (of.length > 1 ? { kind, of } : (of[0] ?? null));

export function parse(text: string): Parsed {
  const all = tokens(text);
  const unclear: string[] = [];
  let at = 0;

  /** What stands up to the end, or up to the parenthesis that closes it. */
  function any(depth: number): Term | null {
    const choices: Term[] = [];
    let both: Term[] = [];
    let words = 0;
    const end = (isOr: boolean) => {
      if (words === 0 && (isOr || choices.length > 0)) unclear.push('OR needs something on both sides');
      const one = together('all', both);
      if (one) choices.push(one);
      [both, words] = [[], 0];
    };
    for (; at < all.length && all[at]!.kind !== ')'; at += 1) {
      const { kind } = all[at]!;
      if (kind === 'or') end(true);
      else if (kind !== 'and') {
        words += 1;
        const one = negatable(depth);
        if (one) both.push(one);
      }
    }
    end(false);
    return together('any', choices);
  }

  /** A word or a parenthesis, with what denies it; the position is then that of its last token. */
  function negatable(depth: number): Term | null {
    let isDenied = false;
    while (all[at]?.kind === 'not') {
      isDenied = !isDenied;
      at += 1;
    }
    const one = single(depth);
    return one && isDenied ? { kind: 'not', of: one } : one;
  }

  function single(depth: number): Term | null {
    const token = all[at];
    if (token?.kind === 'word') {
      const term = termOf(token.text);
      if (typeof term === 'string') unclear.push(term);
      else if (term.kind !== 'frame' || term.sought.text !== '') return term;
      return null;
    }
    if (token?.kind !== '(') {
      unclear.push('NOT needs something behind it');
      at -= 1;
      return null;
    }
    if (depth === DEEPEST) {
      unclear.push(`parentheses lie at most ${DEEPEST} deep`);
      at = all.length;
      return null;
    }
    at += 1;
    return any(depth + 1);
  }

  const term = any(0);
  const parentheses = (of: Token['kind']) => all.filter(({ kind }) => kind === of).length;
  if (parentheses('(') > parentheses(')')) unclear.push('a parenthesis is not closed');
  return { term, unclear: [...new Set(unclear)] };
}
