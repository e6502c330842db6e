// Completions of the word at the caret: fields, and values that the recording has.

import { CATEGORIES, PHASES, type Device, type Names } from '../source/source';
import { tellsCategories } from '../state/grouping';
import { FIELD_NAMES, fieldIn, tokens } from './language';

export interface Completion {
  /** The text that replaces the word. */
  text: string;
  meaning: string;
}

export interface Completions {
  /** The word that a completion replaces: `from..to`. */
  from: number;
  to: number;
  choices: Completion[];
}

/** What completions know about the shown recording. */
export interface Known {
  device: Pick<Device, 'tags' | 'purposes' | 'steps'>;
  names: Names | null;
  regions: readonly string[];
}

/** The most completions shown at once. */
const MOST = 10;
/** Names of functions, files and lines are offered from this many letters on. */
const LEAST = 2;

export const FIELD_MEANINGS: Record<string, string> = {
  file: 'a file in the stack',
  function: 'a function in the stack',
  line: 'the line by which tables name the stack',
  category: 'the category of the memory',
  size: 'the bytes of the block',
  layer: 'the module that allocated it',
  region: 'the annotated region in which it was allocated',
  phase: 'the phase of the step in which it was allocated',
  step: 'the step in which it was allocated',
  leak: 'retained by a leak of the report',
  lived: 'how long it was live',
  allocated: 'the event that allocated it',
  freed: 'the event that freed it',
  stream: 'its stream',
  pool: 'its pool',
  context: 'the compile context',
  metadata: 'the text that the program recorded',
};

type Values = (known: Known) => Iterable<readonly [value: string, meaning: string]>;

const texts = (all: Iterable<string | null | undefined>): (readonly [string, string])[] =>
  [...new Set(all)].filter((text) => text != null && text !== '').map((text) => [text!, ''] as const);

const tagTexts =
  (field: 'layer' | 'compile_context' | 'user_metadata'): Values =>
  ({ device }) =>
    texts(device.tags.map((tags) => tags[field]));

const VALUES: Record<string, Values> = {
  file: ({ names }) => texts(names?.file ?? []),
  function: ({ names }) => texts(names?.function ?? []),
  line: ({ names }) => texts([...new Set(names?.own ?? [])].map((frame) => names?.label[frame])),
  category: ({ device }) => {
    const there = new Set(tellsCategories(device) ? device.purposes?.map(({ category }) => category) : CATEGORIES);
    return CATEGORIES.filter((category) => there.has(category)).map((category) => [category, ''] as const);
  },
  size: () => [
    ['>=10MiB', 'at least 10 MiB'],
    ['<1MiB', 'below 1 MiB'],
    ['512MiB', 'within half a percent'],
  ],
  layer: tagTexts('layer'),
  region: ({ regions }) => texts(regions),
  phase: () => texts(PHASES),
  step: ({ device }) => [
    ...[...(device.steps?.from ?? [])].slice(0, MOST).map((_, step) => [String(step + 1), ''] as const),
    ['2..4', 'steps 2 to 4'],
  ],
  leak: () => [['1', 'the first leak of the report']],
  lived: () => [
    ['>100ms', 'longer than 100 ms'],
    ['<1ms', 'shorter than 1 ms'],
    ['>1000', 'for more than 1,000 events'],
  ],
  allocated: () => [
    ['before', 'live before recording began'],
    ['>1200', 'after event 1,200'],
  ],
  freed: () => [
    ['never', 'not in the recording'],
    ['>1200', 'after event 1,200'],
  ],
  stream: ({ device }) => texts(device.tags.map(({ stream }) => (stream === 0 ? 'default' : `0x${stream.toString(16)}`))),
  pool: ({ device }) =>
    texts(device.tags.map(({ pool }) => (!pool ? 'none' : pool[0] === 0 && pool[1] === 0 ? 'default' : pool.join('.')))),
  context: tagTexts('compile_context'),
  metadata: tagTexts('user_metadata'),
};

const quoted = (value: string) => (/[\s()"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value);

/** Returns the values that contain `part`: those that begin with it come first. */
function matching<T extends readonly [string, string]>(values: Iterable<T>, part: string): T[] {
  const [begin, within]: [T[], T[]] = [[], []];
  for (const value of values) {
    const at = value[0].toLowerCase().indexOf(part);
    if (at === 0) begin.push(value);
    else if (at > 0) within.push(value);
  }
  return [...begin, ...within].slice(0, MOST);
}

/** Returns the completions at a position of the text; null if there is nothing to complete. */
export function completionsAt(text: string, caret: number, known: Known): Completions | null {
  const token = tokens(text).find(({ kind, at, text: word }) => kind === 'word' && at < caret && caret <= at + word.length);
  if (!token) return null;
  const [from, to] = [token.at, token.at + token.text.length];
  const typed = token.text.slice(0, caret - from);
  const { name, sign, value } = fieldIn(token.text);
  const part = (name === '' ? typed : value).replaceAll('"', '').toLowerCase();
  if (name !== '') {
    const values = VALUES[name.toLowerCase()]?.(known) ?? [];
    const choices = matching(values, part).map(([one, meaning]) => ({ text: `${name}${sign || ':'}${quoted(one)}`, meaning }));
    return offered({ from, to, choices }, token.text);
  }
  if (/^["/<>=\d]/.test(typed)) return null;
  const fields = FIELD_NAMES.filter((field) => field.startsWith(part)).map((field) => ({
    text: `${field}:`,
    meaning: FIELD_MEANINGS[field] ?? '',
  }));
  if (part.length < LEAST) return offered({ from, to, choices: fields }, token.text);
  const categories = matching(VALUES['category']!(known), part).map(([one]) => ({
    text: `category:${one}`,
    meaning: 'category',
  }));
  // Compiled code has long names, which few want: they are offered after `function:` only.
  const own = texts(known.names?.function.filter((_, frame) => known.names?.code[frame] !== 'native') ?? []);
  const functions = matching(own, part).map(([one]) => ({
    text: `function:${quoted(one)}`,
    meaning: 'function',
  }));
  const lines = matching(VALUES['line']!(known), part).map(([one]) => ({ text: `line:${quoted(one)}`, meaning: 'line' }));
  return offered({ from, to, choices: [...fields, ...categories, ...lines, ...functions].slice(0, MOST) }, token.text);
}

/** Without a choice, or with the typed word as the only one, nothing is offered. */
function offered(all: Completions, word: string): Completions | null {
  return all.choices.length === 0 || (all.choices.length === 1 && all.choices[0]!.text === word) ? null : all;
}

/** Returns the text with a completion in place of the word, and the position after it. */
export function completed(text: string, { from, to }: Completions, { text: word }: Completion): { text: string; caret: number } {
  // After a field's name comes its value, after a value the next word.
  const end = word.endsWith(':') ? '' : ' ';
  const rest = text.slice(to).replace(/^ /, '');
  return { text: `${text.slice(0, from)}${word}${end}${rest}`, caret: from + word.length + end.length };
}
