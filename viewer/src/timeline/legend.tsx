// The legend: the lines of the picture, and its largest groups, each with the query that finds it.

import { largest } from '../draw/color-keys';
import { areas, linesOf } from '../draw/hit';
import { colorKeys } from '../draw/item-colors';
import { restedPicture } from '../draw/shown';
import { poolName, streamName } from '../live/group';
import { readableFrames } from '../live/stacks';
import { colorBy } from '../state/grouping';
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

/** The query that finds a group; null where the language has none. */
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

/** Whether a text can stand in quotes: the language of the search box has no quotes within quotes. */
const quotable = (text: string) => text.trim() !== '' && !text.includes('"');

export function Legend() {
  const picture = restedPicture.value?.picture;
  const groups = picture ? largest(colorKeys.value, picture.items, areas(picture), MOST) : [];
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
            <span class="legend-color" style={{ background: css(colorKeys.value.color(key)) }} />
            <span class="legend-name">{colorKeys.value.label(key)}</span>
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
