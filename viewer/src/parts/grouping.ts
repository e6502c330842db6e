// The titles of what live memory can be grouped by.

import type { By } from '../source/source';
import { GROUPS } from '../state/grouping';
import type { Choice } from './controls';

export const groupTitle = (by: By) => by.charAt(0).toUpperCase() + by.slice(1);

export const GROUP_CHOICES: Choice<By>[] = GROUPS.map((by) => ({ value: by, label: groupTitle(by) }));
