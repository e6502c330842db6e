// The language of the search box. Adjacent words must all match; OR, NOT and parentheses combine them.
//
//   attention            any frame of the stack: file, line or function
//   "two words"          text with spaces; /att.*(q|k)/ is a pattern
//   file:loss.py         any frame in such a file; function:forward likewise; line:train.py:31 is a line as in the tables
//   0x7f3a00200000       the blocks that contain this address
//   b7f3a00200000_2      a block as in memory_viz: address, and position among the allocations there; s.. is a segment
//   >=10MiB  <1KiB       sizes of blocks; 512MiB and =512MiB within half a percent; size:>=10MiB likewise
//   category:gradient    the category of the memory
//   stream:0x3  pool:1.0  pool:default  layer:..  context:..  metadata:..
//   step:2  phase:backward  region:backward  allocated:>1200  freed:never  leak:1  idle:1
//   lived:>100ms         how long it was live; lived:>100 counts events
//   -word  not word      everything else;  a or b;  (a or b) c
//
// Operators have two spellings, in any letter case: and, &&; or, ||; not, -, !. A field takes = as well as :, and != for the opposite;
// before < and > it needs neither.
//
// The page parses only a query's structure. Texts, patterns and sizes go to the engine, which searches them in bounded time.

import {
  CATEGORIES,
  NONE,
  PHASES,
  type FrameField,
  type Query,
  type SizeSign,
  type Sought,
  type TagField,
} from '../source/source';

/** A closed range of whole numbers. */
type Numbers = [from: number, to: number];

/** A part of the text that was not understood, `from..to`, and the reason to show. */
export interface Unclear {
  why: string;
  from: number;
  to: number;
}

export interface Parsed {
  /** Null for an empty search. */
  query: Query | null;
  unclear: Unclear[];
}

/** The most characters and the most words of a query. */
const LONGEST = 4096;
const MOST_WORDS = 200;

export interface Token {
  kind: 'word' | '(' | ')' | 'and' | 'or' | 'not';
  /** As typed. */
  text: string;
  /** The position of its first character. */
  at: number;
}

const QUOTED = '"[^"]*"?';
const PATTERN = String.raw`/(?:[^/\\\n]|\\.)+/(?=[\s)]|$)`;
const UNIT = '[kmgtp](?:i?b)?|b|us|ms|s|min|h|events?';
/** Matches a word; `>= 10 MiB` is one word like `>=10MiB`, and `lived > 10 ms` like `lived:>10ms`. */
const WORD = new RegExp(
  [
    String.raw`(?:(?:size|lived|step|allocated|freed)\s*[:=]?\s*)?(?:[<>]=?|=)\s*\d[\d.]*(?:\s*(?:${UNIT}))?(?=[\s<>()]|$)`,
    String.raw`\d[\d.]*\s*[kmgtp]i?b(?=[\s()]|$)`,
    `[a-z_]+(?:!=|[:=])(?:${QUOTED}|${PATTERN})`,
    PATTERN,
    QUOTED,
    String.raw`\S+`,
  ].join('|'),
  'yi',
);
const OPERATORS = new Map([
  ['and', 'and'],
  ['&&', 'and'],
  ['or', 'or'],
  ['||', 'or'],
  ['not', 'not'],
] as const);
/** A minus or `!` before a word, but not inside one, as in `->`. */
const MINUS = /[-!](?=["(/\w]|[<>=]=?\s*\d)/y;

const occurrences = (text: string, of: string) => text.split(of).length - 1;

/** Splits a query into words and operators. Quotes hold words together. */
export function tokens(text: string): Token[] {
  if (text.length > LONGEST) return [{ kind: 'word', text, at: 0 }];
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
      const isParenthesis = rest === '(' || rest === ')';
      if (isParenthesis) open += rest === '(' ? 1 : -1;
      found.push({ kind: isParenthesis ? rest : 'not', text: rest, at });
      at += 1;
      continue;
    }
    WORD.lastIndex = at;
    let word = WORD.exec(text)?.[0] ?? rest;
    // C++ names contain parentheses.
    for (let closing = open; closing > 0 && word.endsWith(')') && occurrences(word, ')') > occurrences(word, '('); closing -= 1)
      word = word.slice(0, -1);
    found.push({ kind: OPERATORS.get(word.toLowerCase() as 'and') ?? 'word', text: word, at });
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
  const [, sign, bound] = /^([<>]=?)\s*(\d+)$/.exec(text) ?? [];
  if (sign === undefined) return null;
  const at = Number(bound);
  if (sign[0] === '>') return [sign === '>' ? at + 1 : at, Infinity];
  return [0, sign === '<' ? at - 1 : at];
}

/** Returns the moments right after these events. */
const momentsAfter = ([from, to]: Numbers): Numbers[] =>
  from <= to ? [[Math.min(from + 1, NONE - 1), Math.min(to + 1, NONE - 1)]] : [];

/** Microseconds per unit of time. */
const TIMES = new Map([
  ['us', 1],
  ['ms', 1e3],
  ['s', 1e6],
  ['min', 60e6],
  ['h', 3600e6],
]);

/** Parses `>100ms`, `>=2s`, `<50`, `5..10`: a lifetime in microseconds, or in events without a unit of time. */
function livedOf(text: string): Query | null {
  const [, low, lowUnit = '', high, highUnit = ''] = /^(\d[\d.]*)\s*([a-z]*)(?:\.\.(\d[\d.]*)\s*([a-z]*))?$/.exec(text) ?? [];
  const [, sign, bound, boundUnit = ''] = /^([<>]=?)\s*(\d[\d.]*)\s*([a-z]*)$/.exec(text) ?? [];
  const unitName = boundUnit || highUnit || lowUnit;
  const isEvents = /^(events?)?$/.test(unitName);
  const factor = (unit: string) => (isEvents ? 1 : (TIMES.get(unit || unitName) ?? NaN));
  const of = (from: number, to: number | null): Query | null =>
    Number.isFinite(from) && (to === null || Number.isFinite(to))
      ? { is: 'lived', from, to, unit: isEvents ? 'events' : 'us' }
      : null;
  if (sign !== undefined) {
    const at = Number(bound) * factor(boundUnit);
    if (sign[0] === '>') return of(sign === '>' ? Math.floor(at) + 1 : Math.ceil(at), null);
    return of(0, sign === '<' ? Math.ceil(at) - 1 : Math.floor(at));
  }
  // No lifetime is exactly 100 ms: a single time needs a sign.
  if (low === undefined || (high === undefined && !isEvents)) return null;
  const from = Number(low) * factor(lowUnit);
  return of(from, high === undefined ? from : Number(high) * factor(highUnit));
}

const NUMBERS = 'a number, as in';

/** Parses the number of a finding, from 1, to its position; null for other texts. */
function findingOf(value: string): number | null {
  const number = Number(value);
  return /^\d+$/.test(value) && number > 0 && number < NONE ? number - 1 : null;
}

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
    category(value, sought) {
      const isKnown = sought.is_pattern || CATEGORIES.some((name) => name.includes(value.replaceAll(' ', '_')));
      return isKnown ? { is: 'category', sought } : `there is no such category; categories are ${CATEGORIES.join(', ')}`;
    },
    size: (value) => sizeOf(value) ?? 'a size is a number with a unit, as in size:>=10MiB or size:512MiB',
    layer: tags('layer'),
    region: (_, sought) => ({ is: 'region', sought }),
    phase(value, sought) {
      const isKnown = sought.is_pattern || PHASES.some((name) => name.includes(value.replaceAll(' ', '_')));
      return isKnown ? { is: 'phase', sought } : `there is no such phase; phases are ${PHASES.join(', ')}`;
    },
    step(value) {
      const numbers = numbersOf(value);
      return numbers
        ? { is: 'step', from: numbers[0], to: Number.isFinite(numbers[1]) ? numbers[1] : null }
        : `${NUMBERS} step:2 or step:2..4`;
    },
    leak(value) {
      const leak = findingOf(value);
      return leak === null ? `${NUMBERS} leak:1, by the order of the report` : { is: 'leak', leak };
    },
    idle(value) {
      const idle = findingOf(value);
      return idle === null ? `${NUMBERS} idle:1, by the order of the report` : { is: 'idle', idle };
    },
    lived: (value) => livedOf(value) ?? `${NUMBERS} lived:>100ms, or lived:>100 for events`,
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

/** Parses `>=10MiB`, `=512MiB` or `512MiB`. The engine reads the number and its unit. */
function sizeOf(text: string): Query | null {
  const [, sign = '=', size = ''] = /^([<>]=?|=)?\s*(\d.*)$/.exec(text) ?? [];
  return size === '' ? null : { is: 'size', sign: SIGNS.get(sign) ?? 'about', size };
}

/** Parses a word; returns a text with the reason if it is not understood. */
function conditionOf(word: string): Query | string {
  // A size begins with < or >, but `<module>` is not a size: Python uses it as the function name of a whole file.
  const [, sign] = /^([<>](?:=|(?=[\s\d.]|$))|=(?=\s*\d))/.exec(word) ?? [];
  if (sign !== undefined) return sizeOf(word) ?? `${word}: a size is a number with a unit, as in ${sign}10MiB`;
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
  const { name, sign: between, value } = fieldIn(word);
  const field = FIELDS.get(name.toLowerCase());
  if (name !== '') {
    if (!field) return `there is no field ${name}; fields are ${FIELD_NAMES.join(', ')} ("${word}" in quotes is text)`;
    const sought = soughtBy(value);
    if (sought.text === '') return `${name}: needs a value`;
    const condition = field(sought.text, sought);
    if (typeof condition === 'string') return `${word}: ${condition}`;
    return between === '!=' ? { is: 'not', of: condition } : condition;
  }
  return { is: 'frame', field: 'any', sought: soughtBy(word) };
}

/** Splits `category:x`, `category=x`, `category!=x` or `step>=2` into field, sign and value. The name is empty if the word is a text. */
export function fieldIn(word: string): { name: string; sign: string; value: string } {
  const [, name = '', sign = '', value = ''] = /^([a-z_]+)(!=|[:=]|(?=\s*[<>]))\s*(.*)$/is.exec(word) ?? [];
  const isField = FIELDS.has(name.toLowerCase());
  // `c10::alloc`, `http://..`, `operator==` and `vector<int>` are not fields.
  const isText = /^[:=]/.test(value) || (!isField && (sign === '' || /^[\\/]/.test(value) || (sign !== ':' && value === '')));
  return name === '' || isText ? { name: '', sign: '', value: word } : { name, sign, value };
}

/** The greatest nesting depth of parentheses. */
const DEEPEST = 12;

const together = (is: 'all' | 'any', of: Query[]): Query | null => (of.length > 1 ? { is, of } : (of[0] ?? null));

export function parse(text: string): Parsed {
  const whole = (why: string): Parsed => ({ query: null, unclear: [{ why, from: 0, to: text.length }] });
  if (text.length > LONGEST) return whole(`a search has at most ${LONGEST} characters`);
  const all = tokens(text);
  if (all.filter(({ kind }) => kind === 'word').length > MOST_WORDS) return whole(`a search has at most ${MOST_WORDS} words`);
  const unclear: Unclear[] = [];
  /** Reports a token; without one, the last. A reason is reported once. */
  const report = (why: string, token = all.at(-1)) => {
    const from = token?.at ?? 0;
    if (!unclear.some((one) => one.why === why)) unclear.push({ why, from, to: from + (token?.text.length ?? 0) });
  };
  let at = 0;

  /** Parses up to the end, or up to the closing parenthesis. */
  function any(depth: number): Query | null {
    const choices: Query[] = [];
    let both: Query[] = [];
    let words = 0;
    const end = (isOr: boolean) => {
      const or = isOr ? all[at] : all.findLast(({ kind }, i) => kind === 'or' && i < at);
      if (words === 0 && (isOr || choices.length > 0)) report('OR needs a word on both sides', or);
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
      if (typeof condition === 'string') report(condition, token);
      else if (condition.is !== 'frame' || condition.sought.text !== '') return condition;
      return null;
    }
    if (token?.kind !== '(') {
      at -= 1;
      report('NOT needs a word after it', all[at]);
      return null;
    }
    if (depth === DEEPEST) {
      report(`parentheses can be nested at most ${DEEPEST} deep`, token);
      at = all.length;
      return null;
    }
    at += 1;
    return any(depth + 1);
  }

  const query = any(0);
  const parentheses = (of: Token['kind']) => all.filter(({ kind }) => kind === of).length;
  const open = all.findLast(({ kind }) => kind === '(');
  if (parentheses('(') > parentheses(')')) report('a parenthesis is not closed', open);
  return { query, unclear };
}
