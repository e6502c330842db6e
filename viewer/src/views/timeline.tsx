import { Details } from '../timeline/details';

/** The timeline itself is above: this is what stands beside it. */
export function TimelineView() {
  return <Details />;
}
