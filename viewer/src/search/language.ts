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

//
// The page reads the form of a query alone. Texts, patterns and sizes go to the engine, which searches them in bounded time.

import { NONE, type FrameField, type Query, type SizeSign, type Sought, type TagField } from '../source/source';

/** Whole numbers from one to another, both included. */
type Numbers = [from: number, to: number];

export interface Parsed {
  /** Null where nothing is asked for. */
  query: Query | null;
  /** For each word that was not understood the reason, to show. */
  unclear: string[];
}

/** The most characters of a query, and the most words. */
const LONGEST = 4096;
const MOST_WORDS = 200;

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
/** A minus before a word, and not one that is a part of it, as in `->`. */
const MINUS = /-(?=["(/\w]|[<>=]=?\s*\d)/y;

const occurrences = (text: string, of: string) => text.split(of).length - 1;

/** The words of a query, and what stands between them. Quotes hold words together. */
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
    // Names in C++ have parentheses of their own.
    for (let closing = open; closing > 0 && word.endsWith(')') && occurrences(word, ')') > occurrences(word, '('); closing -= 1)
      word = word.slice(0, -1);
    found.push({ kind: Object.hasOwn(OPERATORS, word) ? OPERATORS[word as keyof typeof OPERATORS] : 'word', text: word });
    at += word.length;
  }
  return found;
}

const unquoted = (text: string) => text.replaceAll('"', '').toLowerCase();

/** What a word or the value of a field seeks. */
function soughtBy(word: string): Sought {
  const [, pattern] = /^\/(.+)\/$/.exec(word) ?? [];
  return pattern === undefined ? { text: unquoted(word), is_pattern: false } : { text: pattern, is_pattern: true };
}

/** An address as memory_viz writes it: `b7f3a00200000_2`, `b'7f3a00200000_2'`. Shorter ones could be names of functions. */
const NAMED = /^(?:(0x|[bs])?'?)([0-9a-f]{8,})_(\d+)'?$/i;

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

/** The moments right after these events. */
const momentsAfter = ([from, to]: Numbers): Numbers[] =>
  from <= to ? [[Math.min(from + 1, NONE - 1), Math.min(to + 1, NONE - 1)]] : [];

const NUMBERS = 'a number, as in';

/** What a field asks for; a text says why its value makes no sense. */
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

/** What a word asks for; a text says why it was not understood. */
function conditionOf(word: string): Query | string {
  // A size begins with < or >. `<module>` is none: Python names the function so that is a whole file.
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
    // The number behind a segment counts segments, not allocations: the address alone is searched.
    const isSegment = letter?.toLowerCase() === 's';
    const number = version === undefined || isSegment ? null : Number(version);
    if (number !== null && number >= NONE) return `${word}: not an address`;
    return { is: 'address', address, version: number };
  }
  const [, name, value = ''] = /^([a-z_]+):(.*)$/i.exec(word) ?? [];
  const field = name === undefined ? undefined : FIELDS.get(name.toLowerCase());
  // `c10::alloc` and `http://..` have no field.
  if (name !== undefined && !value.startsWith(':') && (field || !/^[\\/]/.test(value))) {
    if (!field) return `there is no field ${name}; fields are ${FIELD_NAMES.join(', ')} ("${word}" in quotes is text)`;
    const sought = soughtBy(value);
    if (sought.text === '') return `${name}: needs a value`;
    const condition = field(sought.text, sought);
    return typeof condition === 'string' ? `${word}: ${condition}` : condition;
  }
  return { is: 'frame', field: 'any', sought: soughtBy(word) };
}

/** The deepest that parentheses may lie within each other. */
const DEEPEST = 12;

const together = (is: 'all' | 'any', of: Query[]): Query | null => (of.length > 1 ? { is, of } : (of[0] ?? null));

export function parse(text: string): Parsed {
  if (text.length > LONGEST) return { query: null, unclear: [`a search has at most ${LONGEST} characters`] };
  const all = tokens(text);
  if (all.filter(({ kind }) => kind === 'word').length > MOST_WORDS)
    return { query: null, unclear: [`a search has at most ${MOST_WORDS} words`] };
  const unclear: string[] = [];
  let at = 0;

  /** What stands up to the end, or up to the parenthesis that closes it. */
  function any(depth: number): Query | null {
    const choices: Query[] = [];
    let both: Query[] = [];
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

  const query = any(0);
  const parentheses = (of: Token['kind']) => all.filter(({ kind }) => kind === of).length;
  if (parentheses('(') > parentheses(')')) unclear.push('a parenthesis is not closed');
  return { query, unclear: [...new Set(unclear)] };
}
