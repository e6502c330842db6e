// Walks the blocks in the stack at the shown moment, and describes the timeline for screen readers.

import { computed } from '@preact/signals';
import { stackTitle } from '../draw/color-keys';
import { blocksIn } from '../draw/hit';
import { shownPicture } from '../draw/shown';
import { categoryText } from '../names/tags';
import { momentText } from '../parts/current';
import { NONE, type Picture } from '../source/source';
import { selection } from '../state/allocation';
import { moment, shownMoment } from '../state/moment';
import { current, currentNames } from '../state/recordings';
import { selected } from '../state/selection';
import { numberAt } from '../numbers/at';
import { bytes, capital } from '../text/units';
import { momentBytes } from './model';

/** Selects the block above or below the selected one in the stack at the shown moment; without one there, the largest. */
export function walkBlocks(step: 1 | -1): void {
  const picture = shownPicture.value?.picture;
  if (!picture || picture.window.stacked === 'reserved') return;
  // The moment that the column shows may differ from the shown one by a pixel; it becomes the shown moment.
  const { items, moment: at } = blocksIn(picture, shownMoment.value);
  if (items.length === 0) return;
  const from = items.findIndex((item) => picture.items.id[item] === selected.value);
  const to = from < 0 ? largest(picture, items) : Math.min(Math.max(from + step, 0), items.length - 1);
  if (moment.value !== null || at !== shownMoment.value) moment.value = at;
  selected.value = numberAt(picture.items.id, items[to]!);
}

/** Returns the position of the item with the most bytes. */
function largest({ items: { bytes } }: Picture, items: readonly number[]): number {
  return items.reduce((most, item, i) => (numberAt(bytes, item) > numberAt(bytes, items[most]!) ? i : most), 0);
}

/** The shown moment, its bytes, and the selected allocation, in words. */
export const spoken = computed(() => {
  const device = current.value;
  if (!device) return '';
  const there = momentBytes.value;
  const at = shownMoment.value;
  const words = [capital(momentText(at, device))];
  if (there?.moment === at) words.push(`${bytes(there.allocated)} allocated`, `${bytes(there.reserved)} reserved`);
  const chosen = selection.value;
  if (chosen && chosen.id === selected.value) {
    const category = device.purposes?.[chosen.purpose]?.category ?? null;
    const names = currentNames.value;
    words.push(
      `selected: ${bytes(chosen.bytes)}`,
      ...(category === null ? [] : [categoryText(category)]),
      ...(names ? [stackTitle(names, chosen.stack ?? NONE)] : []),
    );
  }
  return words.join(', ');
});
