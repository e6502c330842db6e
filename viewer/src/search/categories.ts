// The words about categories in the search box, which the legend sets. All other words stay as they are.

import { CATEGORIES, type Category } from '../source/source';
import { tokens } from './language';

/** What the words about whole categories ask for. */
export interface Chosen {
  /** The only category that is shown; null: all are that are not hidden. */
  only: Category | null;
  hidden: readonly Category[];
}

/** A part of a query at its top: a word with what denies it, or a parenthesis. */
interface Part {
  text: string;
  /** The category that the part is about alone, and whether it denies it; null: it is about anything else. */
  about: { category: Category; not: boolean } | null;
}

function aboutOf(text: string): Part['about'] {
  const [, minus, name] = /^(-?)category:"?([a-z_]+)"?$/i.exec(text) ?? [];
  const category = CATEGORIES.find((one) => one === name?.toLowerCase());
  return category ? { category, not: minus === '-' } : null;
}

/** The parts of a query that must all hold; one where it begins with a choice. */
function partsOf(text: string): Part[] {
  const all = tokens(text);
  let depth = 0;
  const parts: string[] = [];
  let begun = '';
  for (const { kind, text: word } of all) {
    if (kind === 'or' && depth === 0) return [{ text: `(${text})`, about: null }];
    depth += kind === '(' ? 1 : kind === ')' ? -1 : 0;
    const isTight = begun === '' || begun.endsWith('-') || begun.endsWith('(') || kind === ')';
    begun += isTight ? word : ` ${word}`;
    if (depth > 0 || kind === 'not' || kind === 'and') continue;
    parts.push(begun);
    begun = '';
  }
  return [...parts, ...(begun === '' ? [] : [begun])].map((part) => ({ text: part, about: aboutOf(part) }));
}

export function chosenCategories(text: string): Chosen {
  const all = partsOf(text).flatMap(({ about }) => about ?? []);
  return {
    only: all.findLast(({ not }) => !not)?.category ?? null,
    hidden: all.filter(({ not }) => not).map(({ category }) => category),
  };
}

/** The query in which other words about categories stand. */
function withWords(text: string, about: readonly NonNullable<Part['about']>[]): string {
  const others = partsOf(text).flatMap((part) => (part.about ? [] : part.text));
  return [...others, ...about.map(({ category, not }) => `${not ? '-' : ''}category:${category}`)].join(' ');
}

/** The query that shows one category alone; all again where it does so already. */
export const toggleOnly = (text: string, category: Category): string =>
  withWords(text, chosenCategories(text).only === category ? [] : [{ category, not: false }]);

/** The query that shows all but a category, and but those that are hidden already; the category again where it is hidden. */
export function toggleHidden(text: string, category: Category): string {
  const { hidden } = chosenCategories(text);
  const now = hidden.includes(category) ? hidden.filter((one) => one !== category) : [...hidden, category];
  return withWords(
    text,
    now.map((one) => ({ category: one, not: true })),
  );
}
