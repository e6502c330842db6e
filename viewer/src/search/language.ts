// The language of the search box. Adjacent words must all match; OR, NOT and parentheses combine them.
//
//   attention            any frame of the stack: file, line or function
//   "two words"          text with spaces; /att.*(q|k)/ is a pattern
//   file:loss.py         any frame in such a file; function:forward likewise; line:train.py:31 is a line as in the tables
//   0x7f3a00200000       the blocks that contain this address
//   b7f3a00200000_2      a block as in memory_viz: address, and position among the allocations there; s.. is a segment
//   >=10MiB  <1KiB       sizes of blocks; 512MiB and =512MiB within half a percent
//   category:gradient    the category of the memory
//   stream:0x3  pool:1.0  pool:default  layer:..  context:..  metadata:..
//   step:2  region:backward  allocated:>1200  freed:never  leak:1
//   -word  NOT word      everything else;  a OR b;  (a OR b) c

//
// The page parses only a query's structure. Texts, patterns and sizes go to the engine, which searches them in bounded time.

import { NONE, type FrameField, type Query, type SizeSign, type Sought, type TagField } from '../source/source';

/** A closed range of whole numbers. */
type Numbers = [from: number, to: number];

export interface Parsed {
  /** Null for an empty search. */
  query: Query | null;
  /** For each word that was not understood, the reason to show. */
  unclear: string[];
}

/** The most characters and the most words of a query. */
const LONGEST = 4096;
const MOST_WORDS = 200;

export interface Token {
  kind: 'word' | '(' | ')' | 'and' | 'or' | 'not';
  /** As typed. */
  text: string;
}

const QUOTED = '"[^"]*"?';
const PATTERN = String.raw`/(?:[^/\\\n]|\\.)+/(?=[\s)]|$)`;
/** Matches a word; `>= 10 MiB` is one word like `>=10MiB`. */
const WORD = new RegExp(
  [
    String.raw`(?:[<>]=?|=)\s*\d[\d.]*(?:\s*(?:[kmgtp](?:i?b)?|b))?(?=[\s<>()]|$)`,
    String.raw`\d[\d.]*\s*[kmgtp]i?b(?=[\s()]|$)`,
    `[a-z_]+:(?:${QUOTED}|${PATTERN})`,
    PATTERN,
    QUOTED,
    String.raw`\S+`,
  ].join('|'),
  'yi',
);
const OPERATORS = { AND: 'and', OR: 'or', NOT: 'not' } as const;
/** A minus before a word, but not inside one, as in `->`. */
const MINUS = /-(?=["(/\w]|[<>=]=?\s*\d)/y;

const occurrences = (text: string, of: string) => text.split(of).length - 1;

/** Splits a query into words and operators. Quotes hold words together. */
export function tokens(text: string): Token[] {
  if (text.length > LONGEST) return [{ kind: 'word', text }];
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
    // C++ names contain parentheses.
    for (let closing = open; closing > 0 && word.endsWith(')') && occurrences(word, ')') > occurrences(word, '('); closing -= 1)
      word = word.slice(0, -1);
    found.push({ kind: Object.hasOwn(OPERATORS, word) ? OPERATORS[word as keyof typeof OPERATORS] : 'word', text: word });
    at += word.length;
  }
  return found;
}

const unquoted = (text: string) => text.replaceAll('"', '').toLowerCase();

/** Returns the text or pattern that a word, or a field's value, searches. */
function soughtBy(word: string): Sought {
  const [, pattern] = /^\/(.+)\/$/.exec(word) ?? [];
  return pattern === undefined ? { text: unquoted(word), is_pattern: false } : { text: pattern, is_pattern: true };
}

/** An address as in memory_viz: `b7f3a00200000_2`, `b'7f3a00200000_2'`. Shorter ones could be function names. */
const NAMED = /^(?:(0x|[bs])?'?)([0-9a-f]{8,})_(\d+)'?$/i;

/** Parses `3`, `3..7`, `>3`, `>=3`, `<7` or `<=7`; null for other texts. */
function numbersOf(text: string): Numbers | null {
  const [, from, to] = /^(\d+)(?:\.\.(\d+))?$/.exec(text) ?? [];
  if (from !== undefined) return [Number(from), Number(to ?? from)];
  const [, sign, bound] = /^([<>]=?)(\d+)$/.exec(text) ?? [];
  if (sign === undefined) return null;
  const at = Number(bound);
  if (sign[0] === '>') return [sign === '>' ? at + 1 : at, Infinity];
  return [0, sign === '<' ? at - 1 : at];
}

/** Returns the moments right after these events. */
const momentsAfter = ([from, to]: Numbers): Numbers[] =>
  from <= to ? [[Math.min(from + 1, NONE - 1), Math.min(to + 1, NONE - 1)]] : [];

const NUMBERS = 'a number, as in';

/** Parses a field's value; returns a text with the reason if the value is invalid. */
type Field = (value: string, sought: Sought) => Query | string;

const frame =
  (field: FrameField): Field =>
  (_, sought) => ({ is: 'frame', field, sought });
const tags =
  (field: TagField): Field =>
  (_, sought) => ({ is: 'tag', field, sought });

const FIELDS = new Map(
  Object.entries<Field>({
    file: frame('file'),
    function: frame('function'),
    line: frame('line'),
    category: (_, sought) => ({ is: 'category', sought }),
    layer: tags('layer'),
    region: (_, sought) => ({ is: 'region', sought }),
    step(value) {
      const numbers = numbersOf(value);
      return numbers
        ? { is: 'step', from: numbers[0], to: Number.isFinite(numbers[1]) ? numbers[1] : null }
        : `${NUMBERS} step:2 or step:2..4`;
    },
    leak(value) {
      const leak = Number(value);
      return /^\d+$/.test(value) && leak > 0 && leak < NONE
        ? { is: 'leak', leak: leak - 1 }
        : `${NUMBERS} leak:1, by the order of the report`;
    },
    allocated(value) {
      const events = numbersOf(value);
      if (value === 'before') return { is: 'allocated', spans: [[0, 0]] };
      return events
        ? { is: 'allocated', spans: momentsAfter(events) }
        : `${NUMBERS} allocated:>1200 or allocated:10..20, or allocated:before`;
    },
    freed(value) {
      const events = numbersOf(value);
      if (value === 'never') return { is: 'freed', spans: [[NONE, NONE]] };
      return events ? { is: 'freed', spans: momentsAfter(events) } : `${NUMBERS} freed:>1200 or freed:10..20, or freed:never`;
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

const SIGNS = new Map<string, SizeSign>([
  ['>', 'above'],
  ['>=', 'at_least'],
  ['<', 'below'],
  ['<=', 'at_most'],
  ['=', 'about'],
]);

/** Parses a word; returns a text with the reason if it is not understood. */
function conditionOf(word: string): Query | string {
  // A size begins with < or >, but `<module>` is not a size: Python uses it as the function name of a whole file.
  const [, sign, size = ''] = /^([<>](?:=|(?=[\s\d.]|$))|=(?=\s*\d))\s*(.*)$/.exec(word) ?? [];
  if (sign !== undefined) {
    if (!/^\d/.test(size)) return `${word}: a size is a number with a unit, as in ${sign}10MiB`;
    return { is: 'size', sign: SIGNS.get(sign) ?? 'about', size };
  }
  if (/^\d[\d.]*\s*[kmgtp]i?b$/i.test(word)) return { is: 'size', sign: 'about', size: word };
  if (/^0x/i.test(word) || NAMED.test(word)) {
    const [, letter, hex, version] = NAMED.exec(word) ?? /^0(x)([0-9a-f]+)$/i.exec(word) ?? [];
    const address = hex === undefined ? NaN : parseInt(hex, 16);
    if (!Number.isSafeInteger(address)) return `${word}: not an address`;
    // A segment's number counts segments, not allocations, so only the address is searched.
    const isSegment = letter?.toLowerCase() === 's';
    const number = version === undefined || isSegment ? null : Number(version);
    if (number !== null && number >= NONE) return `${word}: not an address`;
    return { is: 'address', address, version: number };
  }
  const [, name, value = ''] = /^([a-z_]+):(.*)$/i.exec(word) ?? [];
  const field = name === undefined ? undefined : FIELDS.get(name.toLowerCase());
  // `c10::alloc` and `http://..` are not fields.
  if (name !== undefined && !value.startsWith(':') && (field || !/^[\\/]/.test(value))) {
    if (!field) return `there is no field ${name}; fields are ${FIELD_NAMES.join(', ')} ("${word}" in quotes is text)`;
    const sought = soughtBy(value);
    if (sought.text === '') return `${name}: needs a value`;
    const condition = field(sought.text, sought);
    return typeof condition === 'string' ? `${word}: ${condition}` : condition;
  }
  return { is: 'frame', field: 'any', sought: soughtBy(word) };
}

/** The greatest nesting depth of parentheses. */
const DEEPEST = 12;

const together = (is: 'all' | 'any', of: Query[]): Query | null => (of.length > 1 ? { is, of } : (of[0] ?? null));

export function parse(text: string): Parsed {
  if (text.length > LONGEST) return { query: null, unclear: [`a search has at most ${LONGEST} characters`] };
  const all = tokens(text);
  if (all.filter(({ kind }) => kind === 'word').length > MOST_WORDS)
    return { query: null, unclear: [`a search has at most ${MOST_WORDS} words`] };
  const unclear: string[] = [];
  let at = 0;

  /** Parses up to the end, or up to the closing parenthesis. */
  function any(depth: number): Query | null {
    const choices: Query[] = [];
    let both: Query[] = [];
    let words = 0;
    const end = (isOr: boolean) => {
      if (words === 0 && (isOr || choices.length > 0)) unclear.push('OR needs a word on both sides');
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

  /** Parses a word or a parenthesis, with its negation; the position is then at its last token. */
  function negatable(depth: number): Query | null {
    let isDenied = false;
    while (all[at]?.kind === 'not') {
      isDenied = !isDenied;
      at += 1;
    }
    const one = single(depth);
    return one && isDenied ? { is: 'not', of: one } : one;
  }

  function single(depth: number): Query | null {
    const token = all[at];
    if (token?.kind === 'word') {
      const condition = conditionOf(token.text);
      if (typeof condition === 'string') unclear.push(condition);
      else if (condition.is !== 'frame' || condition.sought.text !== '') return condition;
      return null;
    }
    if (token?.kind !== '(') {
      unclear.push('NOT needs a word after it');
      at -= 1;
      return null;
    }
    if (depth === DEEPEST) {
      unclear.push(`parentheses can be nested at most ${DEEPEST} deep`);
      at = all.length;
      return null;
    }
    at += 1;
    return any(depth + 1);
  }

  const query = any(0);
  const parentheses = (of: Token['kind']) => all.filter(({ kind }) => kind === of).length;
  if (parentheses('(') > parentheses(')')) unclear.push('a parenthesis is not closed');
  return { query, unclear: [...new Set(unclear)] };
}
