// Names of the lines and of the largest groups in the picture.

import { largest } from '../draw/color-keys';
import { areas, linesOf } from '../draw/hit';
import { keys } from '../draw/item-colors';
import { settled } from '../draw/shown';
import { poolName, streamName } from '../live/group';
import { readableFrames } from '../live/stacks';
import { colorBy } from '../state/grouping';
import { current, currentNames } from '../state/recordings';
import { overlay } from '../state/replay';
import { search } from '../state/search';
import { css } from '../style/colors';
import { share } from '../text/units';

const MOST = 12;

interface Find {
  /** What to type. */
  query: string;
  /** What that finds. */
  title: string;
}

/** How to find a group; null: there is no word for it. */
function findOf(key: number): Find | null {
  const known = currentNames.value;
  const tags = current.value?.tags[key];
  switch (colorBy.value) {
    case 'stack': {
      const frame = known && readableFrames(known, key)[0];
      const label = frame === undefined ? '' : (known?.label[frame] ?? '');
      return quotable(label) ? { query: `"${label}"`, title: `all stacks through ${label}` } : null;
    }
    case 'size':
      return { query: `>=${2 ** key} <${2 ** (key + 1)}`, title: 'all blocks of these sizes' };
    case 'category':
      if (!tags) return null;
      if (tags.category === null) return { query: 'category:unknown', title: 'all without a known category' };
      return quotable(tags.category)
        ? { query: `category:"${tags.category}"`, title: `all categories with ${tags.category} in their names` }
        : null;
    case 'stream':
      return tags ? { query: `stream:${tags.stream}`, title: `all of ${streamName(tags.stream)}` } : null;
    case 'pool':
      return tags ? { query: `pool:${tags.pool?.join('.') ?? 'none'}`, title: `all of ${poolName(tags.pool)}` } : null;
  }
}

/** The language of the search box has no quotes within quotes. */
const quotable = (text: string) => text.trim() !== '' && !text.includes('"');

export function Legend() {
  const picture = settled.value?.picture;
  const groups = picture ? largest(keys.value, picture.items, areas(picture), MOST) : [];
  return (
    <ul class="legend" aria-label="Legend">
      {picture &&
        linesOf(picture)
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
      {picture?.items.from.includes(0) && (
        <li>
          <span class="legend-hatch" />
          live before recording
        </li>
      )}
      {groups.map(({ key, share: part }) => {
        const find = findOf(key);
        const text = (
          <>
            <span class="legend-color" style={{ background: css(keys.value.color(key)) }} />
            <span class="legend-name">{keys.value.label(key)}</span>
            <span class="quiet">{share(part, 1)}</span>
          </>
        );
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
