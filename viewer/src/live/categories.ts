// What is live at a moment, added up by category.

import { numberAt } from '../numbers/at';
import { CATEGORIES, type Category, type Live, type Tables } from '../source/source';

export interface CategorySum {
  category: Category;
  bytes: number;
}

/** The categories that have bytes, in the order in which all pictures stack them; empty while it is not known what memory is for. */
export function byCategory(live: Live, { purposes }: Pick<Tables, 'purposes'>): CategorySum[] {
  const sums = new Map<Category, number>();
  live.purpose.forEach((purpose, i) => {
    const category = purposes?.[purpose]?.category;
    if (category) sums.set(category, (sums.get(category) ?? 0) + numberAt(live.bytes, i));
  });
  return CATEGORIES.flatMap((category) => {
    const bytes = sums.get(category) ?? 0;
    return bytes > 0 ? [{ category, bytes }] : [];
  });
}
