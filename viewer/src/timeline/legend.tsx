// The legend: the lines of the picture, and its largest groups, each with a query that finds it.

import type { ComponentChildren } from 'preact';
import { categoryOf } from '../draw/color-keys';
import { linesOf } from '../draw/hit';
import { coloredBy, keysOf } from '../draw/item-colors';
import { shares } from '../draw/shares';
import { restedPicture } from '../draw/shown';
import { ownFrame, readableFrames } from '../names/stacks';
import { categoryText } from '../names/tags';
import { momentName, momentText } from '../parts/current';
import { Label } from '../parts/label';
import { chosenCategories, toggleHidden, toggleOnly } from '../search/categories';
import { CATEGORIES, NONE, type Category, type Device, type GroupShare } from '../source/source';
import type { ColorBy } from '../state/grouping';
import { current, currentNames } from '../state/recordings';
import { overlay } from '../state/replay';
import { search } from '../state/search';
import { css, type Rgb } from '../style/colors';
import { bytes, count, share } from '../text/units';

interface Find {
  /** The query, as typed in the search box. */
  query: string;
  /** A description of the matches. */
  title: string;
}

/** Whether a text can be quoted; the search language has no escaped quotes. */
const quotable = (text: string) => text.trim() !== '' && !text.includes('"');
const quoted = (text: string, field = ''): Find | null =>
  quotable(text) ? { query: `${field}"${text}"`, title: `all of ${text}` } : null;

/** Returns the query that finds a group, or null. Categories have separate entries. */
function findOf(by: ColorBy, { key, label, stack }: GroupShare): Find | null {
  const known = currentNames.value;
  const shared = key.slice(key.indexOf(' ') + 1);
  const own = known && stack !== null ? ownFrame(known, stack) : NONE;
  switch (by) {
    case 'stack':
    case 'line': {
      const frame = known && stack !== null ? (by === 'line' ? own : readableFrames(known, stack)[0]) : undefined;
      const label = known?.label[frame ?? NONE] ?? '';
      return quotable(label) ? { query: `"${label}"`, title: `all stacks through ${label}` } : null;
    }
    case 'function':
      return known && own !== NONE ? quoted(known.function[own] ?? '', 'function:') : null;
    case 'file':
      return known && own !== NONE ? quoted(known.file[own] ?? '', 'file:') : null;
    case 'layer':
      return shared.startsWith('/') ? quoted(shared.slice(1), 'layer:') : null;
    case 'size':
      return { query: `>=${2 ** Number(shared)} <${2 ** (Number(shared) + 1)}`, title: 'all blocks of these sizes' };
    case 'stream':
      return { query: `stream:${shared}`, title: `all of ${label}` };
    case 'pool':
      return { query: `pool:${shared || 'none'}`, title: `all of ${label}` };
    default:
      return null;
  }
}

/** Formats the moment of the shares: `at the peak, event 1,203`. */
function momentOf(moment: number, device: Device): string {
  const name = moment === 0 || device.events === 0 ? momentName(moment, device) : `event ${count(moment - 1)}`;
  return moment === device.peaks.allocated.moment ? `peak, ${name}` : name;
}

/** The total of the shares. */
function Whole({ of: { moment, bytes: all, found, reserved, only } }: { of: NonNullable<typeof shares.value> }) {
  const device = current.value;
  if (!device) return null;
  const what = reserved ? 'reserved' : 'allocated';
  return (
    <li
      class={found === null ? 'legend-whole' : 'legend-whole legend-searched'}
      data-moment={moment}
      data-bytes={all}
      title={`${count(all)} bytes ${what} ${momentText(moment, device)}`}
    >
      {momentOf(moment, device)}: <b>{bytes(all)}</b>
      {found !== null && (
        <span title={`${count(found)} bytes match the search`}>
          {bytes(found)} match, others are {only ? 'left out' : 'faded'}
        </span>
      )}
    </li>
  );
}

export function Legend() {
  const picture = restedPicture.value?.picture;
  if (!picture) return <ul class="legend" aria-label="Legend" />;
  const listed = shares.value;
  const isListed = listed !== null && listed.by === coloredBy(picture.items);
  return (
    <ul class={coloredBy(picture.items) === 'category' ? 'legend legend-categories' : 'legend'} aria-label="Legend">
      {isListed && <Whole of={listed} />}
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
      {coloredBy(picture.items) === 'layer' && !current.value?.tags.some(({ layer }) => layer !== null) && (
        <li class="quiet" title="vramscope.torch.record and vramscope run record the modules of a program">
          no modules are recorded, so all have one color
        </li>
      )}
      {coloredBy(picture.items) === 'allocation' && <li class="quiet">each allocation has its own color</li>}
      {isListed && <Groups of={listed} color={keysOf(picture.items).color} />}
    </ul>
  );
}

function Groups({ of: { by, groups, others, other_bytes, found, bytes: whole, reserved, only }, color }: GroupsProps) {
  // The groups of matches alone are parts of all matches.
  const all = only && found !== null ? found : whole;
  const category = (group: GroupShare) => (by === 'category' ? categoryOf(group.hue) : null);
  const listed = groups.map((group) => ({ group, part: share(group.bytes, all), category: category(group) }));
  // Allocation categories keep a fixed order, even with no bytes at this moment: the picture has their colors elsewhere.
  const told = new Set(by === 'category' && !reserved ? current.value?.purposes?.map(({ category }) => category) : []);
  for (const { category } of listed) if (category) told.delete(category);
  const none = { bytes: 0, count: 0, found: 0, stack: null };
  for (const category of told) {
    const group = { ...none, key: `0 ${category}`, label: categoryText(category), hue: CATEGORIES.indexOf(category) + 1 };
    listed.push({ group, part: share(0, all), category });
  }
  if (by === 'category') listed.sort((a, b) => a.group.hue - b.group.hue);
  return (
    <>
      {listed.map(({ group, part, category }) => {
        const isFaded = found !== null && group.bytes > 0 && group.found === 0;
        const text = <EntryText group={group} part={part} color={color} />;
        if (category) return <CategoryEntry key={category} category={category} group={group} isFaded={isFaded} text={text} />;
        const find = findOf(by, group);
        return (
          <li key={group.key} class={isFaded ? 'legend-faded' : undefined} data-key={group.key} data-bytes={group.bytes}>
            {find === null ? (
              text
            ) : (
              <button
                type="button"
                class="legend-button"
                title={`${group.label}\n${count(group.bytes)} bytes. Search for ${find.title}`}
                aria-pressed={search.value === find.query}
                onClick={() => (search.value = search.value === find.query ? '' : find.query)}
              >
                {text}
              </button>
            )}
          </li>
        );
      })}
      {others > 0 && (
        <li data-key="others" data-bytes={other_bytes} title={`${count(other_bytes)} bytes`}>
          <span class="legend-name">
            {count(others)} {others === 1 ? 'other' : 'others'}
          </span>
          <span class="legend-bytes">{bytes(other_bytes)}</span>
          <span class="legend-share">{share(other_bytes, all)}</span>
        </li>
      )}
    </>
  );
}

interface GroupsProps {
  of: NonNullable<typeof shares.value>;
  color: (hue: number) => Rgb;
}

/** Color, name, bytes and share of a group. */
function EntryText({ group, part, color }: { group: GroupShare; part: string; color: (hue: number) => Rgb }) {
  return (
    <>
      <span class="legend-color" style={{ background: css(color(group.hue)) }} />
      <span class="legend-name">
        <Label text={group.label} />
      </span>
      <span class="legend-bytes">{bytes(group.bytes)}</span>
      <span class="legend-share">{part}</span>
    </>
  );
}

interface CategoryProps {
  category: Category;
  group: GroupShare;
  isFaded: boolean;
  text: ComponentChildren;
}

/** A category: its name shows only it, the button behind it hides it. Both are search terms; the search's other terms stay. */
function CategoryEntry({ category, group, isFaded, text }: CategoryProps) {
  const { only, hidden } = chosenCategories(search.value);
  const isHidden = hidden.includes(category);
  const name = categoryText(category);
  return (
    <li
      class={isHidden ? 'legend-hidden' : isFaded ? 'legend-faded' : undefined}
      data-category={category}
      data-key={group.key}
      data-bytes={group.bytes}
    >
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
