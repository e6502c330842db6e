// Names of the lines and of the largest groups in the picture.

import { css } from '../colors';
import { names, colorBy, current, file, search } from '../state';
import { readableFrames } from '../live/stacks';
import { share } from '../text/units';
import { areas, linesOf } from './hit';
import { largest } from './keys';
import { keys, settled } from './model';
import { overlay } from './overlay';

const MOST = 12;

/** What to type to find a group; null: there is no word for it. */
function queryOf(key: number): string | null {
  const known = names.value.get(file.value);
  const tags = current.value?.tags[key];
  switch (colorBy.value) {
    case 'stack': {
      const frame = known && readableFrames(known, key)[0];
      return known && frame !== undefined ? `"${known.label[frame]}"` : null;
    }
    case 'size':
      return `>=${2 ** key} <${2 ** (key + 1)}`;
    case 'category':
      return tags?.category ? `category:${tags.category}` : null;
    case 'stream':
      return tags ? `stream:${tags.stream}` : null;
    case 'pool':
      return tags ? `pool:${tags.pool?.join('.') ?? 'none'}` : null;
  }
}

export function Legend() {
  const picture = settled.value?.picture;
  const groups = picture ? largest(keys.value, picture.items, areas(picture), MOST) : [];
  return (
    <ul class="legend" aria-label="Legend">
      {picture && linesOf(picture).filter(({ values }) => values.some((v) => !Number.isNaN(v))).map(({ kind }) => (
        <li key={kind}><span class={`legend-line ink-${kind}`} />{kind}</li>
      ))}
      {overlay.value && <li><span class="legend-line legend-dashed" /><span class="legend-name">{overlay.value.label}</span></li>}
      {picture && picture.items.from.includes(0) && <li><span class="legend-hatch" />live before recording</li>}
      {groups.map(({ key, share: part }) => {
        const query = queryOf(key);
        const text = (
          <>
            <span class="legend-color" style={{ background: css(keys.value.color(key)) }} />
            <span class="legend-name">{keys.value.label(key)}</span>
            <span class="quiet">{share(part, 1)}</span>
          </>
        );
        return (
          <li key={`group ${key}`}>
            {query === null ? text : (
              <button type="button" class="legend-button" title={`Search for ${keys.value.label(key)}`}
                aria-pressed={search.value === query}
                onClick={() => (search.value = search.value === query ? '' : query)}>
                {text}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}
