import { categoryText } from '../../names/tags';
import { chosenCategories, toggleOnly } from '../../search/categories';
import { findsCategory } from '../../search/found';
import { CATEGORIES, type Category } from '../../source/source';
import { search } from '../../state/search';
import { categoryColor, css } from '../../style/colors';
import { dark } from '../../style/theme';
import { bytes, count, share } from '../../text/units';

interface CategorySum {
  category: Category;
  bytes: number;
}

/** A bar with the bytes of each of CATEGORIES, and the same in words. A click shows only that category, everywhere. */
export function CategoryBar({ held }: { held: readonly number[] }) {
  // Same order as in all pictures.
  const sums = CATEGORIES.map((category, i): CategorySum => ({ category, bytes: held[i] ?? 0 })).filter(({ bytes }) => bytes > 0);
  const total = sums.reduce((sum, { bytes }) => sum + bytes, 0);
  const color = ({ category }: CategorySum) => css(categoryColor(category, dark.value));
  const fade = ({ category }: CategorySum) => (findsCategory(category) ? '' : 'category-faded');
  return (
    <section class="category-bar" aria-label="Allocated by category" data-total={total}>
      <div class="category-bar-whole" aria-hidden="true">
        {sums.map((one) => (
          <span key={one.category} class={fade(one)} style={{ flexGrow: one.bytes, background: color(one) }} />
        ))}
      </div>
      <ul>
        {sums.map((one) => (
          <li key={one.category} data-category={one.category} data-bytes={one.bytes}>
            <button
              type="button"
              class="legend-button"
              title={`${count(one.bytes)} bytes`}
              aria-pressed={chosenCategories(search.value).only === one.category}
              onClick={() => (search.value = toggleOnly(search.value, one.category))}
            >
              <span class="legend-color" style={{ background: color(one) }} />
              <span class="legend-name">{categoryText(one.category)}</span>
              <span>{bytes(one.bytes)}</span>
              <span class="quiet">{share(one.bytes, total)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
