// The titles of what live memory can be grouped by.

import { GROUPS, type GroupBy } from '../state/grouping';
import type { Choice } from './controls';

export const groupTitle = (by: GroupBy) => by.charAt(0).toUpperCase() + by.slice(1);

export const GROUP_CHOICES: Choice<GroupBy>[] = GROUPS.map((by) => ({ value: by, label: groupTitle(by) }));
