// The words about categories in the search box, which the legend sets. All other words stay as they are.

import { CATEGORIES, type Category } from '../source/source';
import { words } from './query';

/** What the words about whole categories ask for. */
export interface Chosen {
  /** The only category that is shown; null: all are that are not hidden. */
  only: Category | null;
  hidden: readonly Category[];
}

interface Word {
  category: Category;
  not: boolean;
}

/** A word that names a whole category; null: any other. */
function wordOf(word: string): Word | null {
  const [, minus, name] = /^(-?)category:"?([a-z_]+)"?$/i.exec(word) ?? [];
  const category = CATEGORIES.find((one) => one === name?.toLowerCase());
  return category ? { category, not: minus === '-' } : null;
}

const told = (text: string) => words(text).flatMap((word) => wordOf(word) ?? []);

export function chosenCategories(text: string): Chosen {
  const all = told(text);
  return {
    only: all.findLast(({ not }) => !not)?.category ?? null,
    hidden: all.filter(({ not }) => not).map(({ category }) => category),
  };
}

/** The query in which other words about categories stand. */
function withWords(text: string, about: readonly Word[]): string {
  const others = words(text).filter((word) => wordOf(word) === null);
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
