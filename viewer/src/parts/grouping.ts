// The titles of what live memory can be grouped by, and of the frames that make its tree of calls.

import type { By, CallsOf } from '../source/source';
import { CALLS, GROUPS } from '../state/grouping';
import { capital } from '../text/units';
import type { Choice } from './controls';

export const groupTitle: (by: By) => string = capital;

export const GROUP_CHOICES: Choice<By>[] = GROUPS.map((by) => ({ value: by, label: groupTitle(by) }));

const CALL_TITLES: Record<CallsOf, string> = { own: 'My code', python: 'Python', all: 'All' };
export const CALL_CHOICES: Choice<CallsOf>[] = CALLS.map((of) => ({ value: of, label: CALL_TITLES[of] }));
