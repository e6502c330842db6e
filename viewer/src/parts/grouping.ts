// Titles for the groupings of live memory, and for the frames of its call tree.

import type { ColorKeys } from '../draw/color-keys';
import { colorKeys } from '../draw/item-colors';
import type { By, CallsOf } from '../source/source';
import { CALLS, GROUPS, colorBy } from '../state/grouping';
import { css } from '../style/colors';
import { capital } from '../text/units';
import { textColumn, type Column } from './columns';
import type { Choice } from './controls';
import type { Group } from './holders';

export const groupTitle: (by: By) => string = capital;

export const GROUP_CHOICES: Choice<By>[] = GROUPS.map((by) => ({ value: by, label: groupTitle(by) }));

const CALL_TITLES: Record<CallsOf, string> = { own: 'My code', python: 'Python', all: 'All' };
export const CALL_CHOICES: Choice<CallsOf>[] = CALLS.map((of) => ({ value: of, label: CALL_TITLES[of] }));

/** The column with the group names, and their colors if pictures use the same grouping. */
export function groupColumn(by: By, color: ColorKeys['color'] | null): Column<Group> {
  return { ...textColumn(by, groupTitle(by), (g) => g.label, true), swatch: (g) => color && css(color(g.hue)) };
}

/** The group colors if pictures use the same grouping, else null. */
export const colorsOfGroups = (by: By): ColorKeys['color'] | null => (colorBy.value === by ? colorKeys.value.color : null);
