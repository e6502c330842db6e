import { Details } from '../../timeline/details';

/** The timeline itself is above every view: this view adds the details of the selected allocation. */
export function View() {
  return <Details />;
}
