// The legend: the lines of the picture, and its largest groups, each with the query that finds it.

import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { categoryOf, largest, type ColorKeys, type Share } from '../draw/color-keys';
import { areas, linesOf } from '../draw/hit';
import { coloredBy, keysOf } from '../draw/item-colors';
import { restedPicture } from '../draw/shown';
import { readableFrames } from '../names/stacks';
import { categoryText, poolName, streamName } from '../names/tags';
import { chosenCategories, toggleHidden, toggleOnly } from '../search/categories';
import type { Category } from '../source/source';
import type { ColorBy } from '../state/grouping';
import { current, currentNames } from '../state/recordings';
import { overlay } from '../state/replay';
import { search } from '../state/search';
import { css } from '../style/colors';
import { share } from '../text/units';

/** The most groups in the legend. */
const MOST = 12;

interface Find {
  /** The query, as one would type it. */
  query: string;
  /** What the query finds. */
  title: string;
}

/** The query that finds a group; null where the language has none. Categories have entries of their own. */
function findOf(by: ColorBy, key: number): Find | null {
  const known = currentNames.value;
  const tags = current.value?.tags[key];
  switch (by) {
    case 'stack': {
      const frame = known && readableFrames(known, key)[0];
      const label = frame === undefined ? '' : (known?.label[frame] ?? '');
      return quotable(label) ? { query: `"${label}"`, title: `all stacks through ${label}` } : null;
    }
    case 'size':
      return { query: `>=${2 ** key} <${2 ** (key + 1)}`, title: 'all blocks of these sizes' };
    case 'category':
      return null;
    case 'stream':
      return tags ? { query: `stream:${tags.stream}`, title: `all of ${streamName(tags.stream)}` } : null;
    case 'pool':
      return tags ? { query: `pool:${tags.pool?.join('.') ?? 'none'}`, title: `all of ${poolName(tags.pool)}` } : null;
  }
}

/** Whether a text can stand in quotes: the language of the search box has no quotes within quotes. */
const quotable = (text: string) => text.trim() !== '' && !text.includes('"');

export function Legend() {
  const picture = restedPicture.value?.picture;
  const area = useMemo(() => picture && areas(picture), [picture]);
  if (!picture || !area) return <ul class="legend" aria-label="Legend" />;
  const [by, keys] = [coloredBy(picture.items), keysOf(picture.items)];
  const groups = largest(keys, picture.items, area, MOST);
  const byCategory = by === 'category';
  // Categories stand in one order in every picture.
  if (byCategory) groups.sort((a, b) => a.key - b.key);
  return (
    <ul class="legend" aria-label="Legend">
      {linesOf(picture)
        .filter(({ values }) => values.some((v) => !Number.isNaN(v)))
        .map(({ kind }) => (
          <li key={kind}>
            <span class={`legend-line ink-${kind}`} />
            {kind}
          </li>
        ))}
      {overlay.value && (
        <li>
          <span class="legend-line legend-dashed" />
          <span class="legend-name">{overlay.value.label}</span>
        </li>
      )}
      {picture.items.from.includes(0) && (
        <li>
          <span class="legend-hatch" />
          live before recording
        </li>
      )}
      {groups.map(({ key, share: part }) => {
        const category = byCategory ? categoryOf(key) : null;
        const text = <EntryText keys={keys} of={{ key, share: part }} />;
        if (category) return <CategoryEntry key={category} category={category} text={text} />;
        const find = findOf(by, key);
        return (
          <li key={`group ${key}`}>
            {find === null ? (
              text
            ) : (
              <button
                type="button"
                class="legend-button"
                title={`Search for ${find.title}`}
                aria-pressed={search.value === find.query}
                onClick={() => (search.value = search.value === find.query ? '' : find.query)}
              >
                {text}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Colour, name and share of a group. */
function EntryText({ keys, of: { key, share: part } }: { keys: ColorKeys; of: Share }) {
  return (
    <>
      <span class="legend-color" style={{ background: css(keys.color(key)) }} />
      <span class="legend-name">{keys.label(key)}</span>
      <span class="quiet">{share(part, 1)}</span>
    </>
  );
}

/** A category: its name shows it alone, the button behind it hides it. Both are words of the search, whose other words stay. */
function CategoryEntry({ category, text }: { category: Category; text: ComponentChildren }) {
  const { only, hidden } = chosenCategories(search.value);
  const isHidden = hidden.includes(category);
  const name = categoryText(category);
  return (
    <li class={isHidden ? 'legend-hidden' : undefined} data-category={category}>
      <button
        type="button"
        class="legend-button"
        title={only === category ? 'Show every category' : `Show only ${name}`}
        aria-pressed={only === category}
        onClick={() => (search.value = toggleOnly(search.value, category))}
      >
        {text}
      </button>
      <button
        type="button"
        class="legend-hide"
        aria-label={`Hide ${name}`}
        title={isHidden ? `Show ${name} again` : `Hide ${name}`}
        aria-pressed={isHidden}
        onClick={() => (search.value = toggleHidden(search.value, category))}
      >
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M1.5 8C3 5.2 5.3 3.8 8 3.8s5 1.4 6.5 4.2C13 10.8 10.7 12.2 8 12.2S3 10.8 1.5 8Z" />
          <circle cx="8" cy="8" r="2" />
          {isHidden && <path d="M3 13 13 3" />}
        </svg>
      </button>
    </li>
  );
}
