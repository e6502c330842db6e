// The category terms of a query, which the legend sets. All other terms stay unchanged.

import { CATEGORIES, type Category } from '../source/source';
import { tokens } from './language';

/** The choice that a query's category terms make. */
export interface Chosen {
  /** The only shown category; null: all categories that are not hidden. */
  only: Category | null;
  hidden: readonly Category[];
}

/** A top-level part of a query: a word with its negation, or a parenthesis. */
interface Part {
  text: string;
  /** The category if the part is only about one, and whether it is negated; null otherwise. */
  about: { category: Category; not: boolean } | null;
}

function aboutOf(text: string): Part['about'] {
  const [, minus, sign, name] = /^([-!]|not )?category(!=|[:=])"?([a-z_ ]+)"?$/i.exec(text) ?? [];
  const category = CATEGORIES.find((one) => one === name?.toLowerCase().replaceAll(' ', '_'));
  return category ? { category, not: (minus !== undefined) !== (sign === '!=') } : null;
}

/** Splits a query into the parts that must all match; a query that starts with an OR is one part. */
function partsOf(text: string): Part[] {
  const all = tokens(text);
  let depth = 0;
  const parts: string[] = [];
  let begun = '';
  for (const { kind, text: word } of all) {
    if (kind === 'or' && depth === 0) return [{ text: `(${text})`, about: null }];
    depth += kind === '(' ? 1 : kind === ')' ? -1 : 0;
    const isTight = begun === '' || /[-!(]$/.test(begun) || kind === ')';
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

/** Returns the query with its category terms replaced. */
function withWords(text: string, about: readonly NonNullable<Part['about']>[]): string {
  const others = partsOf(text).flatMap((part) => (part.about ? [] : part.text));
  return [...others, ...about.map(({ category, not }) => `${not ? '-' : ''}category:${category}`)].join(' ');
}

/** Returns the query that shows only one category, or all categories if it already does. */
export const toggleOnly = (text: string, category: Category): string =>
  withWords(text, chosenCategories(text).only === category ? [] : [{ category, not: false }]);

/** Returns the query that also hides a category, or shows it again if it is hidden. */
export function toggleHidden(text: string, category: Category): string {
  const { hidden } = chosenCategories(text);
  const now = hidden.includes(category) ? hidden.filter((one) => one !== category) : [...hidden, category];
  return withWords(
    text,
    now.map((one) => ({ category: one, not: true })),
  );
}
