// The component of each view below the timeline. To add a view, add a row here, its name in state/place.ts, and its file: tab, key, help
// and address follow. It stores state in the address with `kept` (state/kept.ts). Its outermost element has the class `NAME-view`, for
// the browser tests.

import type { JSX } from 'preact';
import type { ViewName } from '../state/place';
import { AllocationsView } from './allocations';
import { CompareView } from './compare';
import { MomentView } from './moment';
import { LateRanks } from './late-ranks';
import { OverviewView } from './overview';
import { SegmentsView } from './segments';
import { StateView } from './state';
import { TimelineView } from './timeline';
import { WhatIfView } from './whatif';

export const PANELS: Record<ViewName, () => JSX.Element | null> = {
  ranks: LateRanks,
  overview: OverviewView,
  timeline: TimelineView,
  state: StateView,
  segments: SegmentsView,
  allocations: AllocationsView,
  moment: MomentView,
  compare: CompareView,
  whatif: WhatIfView,
};
