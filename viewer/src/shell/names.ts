import type { View } from '../state';

export const VIEW_NAMES: Record<View, string> = {
  overview: 'Overview',
  timeline: 'Timeline',
  state: 'State',
  segments: 'Segments',
  moment: 'Moment',
  compare: 'Compare',
  whatif: 'What-if',
};
