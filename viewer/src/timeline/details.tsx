// The panel beside the timeline: notes, the selected allocation, and the memory of the chosen interval, or else of the shown part.

import { selection } from '../state/allocation';
import { selected } from '../state/selection';
import { interval } from '../state/interval';
import { AllocationDetails } from './allocation';
import { InFlight, OperatorDetails } from './in-flight';
import { Notes } from './notes';
import { SpanDetails } from './interval';

const HINTS: [string, string][] = [
  ['Click', 'selects an allocation, and its moment for all views'],
  ['Shift + drag', 'chooses an interval; so does dragging along the axis'],
  ['Drag', 'scrolls'],
  ['Wheel', 'zooms at the pointer; with Shift, bytes'],
  ['Alt + drag', 'shows only this part'],
  ['Double click', 'zooms to a block; beside blocks, shows everything'],
  ['?', 'shows all keys'],
];

export function Details() {
  const id = selected.value === null ? null : (selection.value?.id ?? null);
  return (
    <aside class="details" aria-label="Details" {...(id === null ? {} : { 'data-selected': id })}>
      <Notes />
      <AllocationDetails />
      <InFlight />
      <OperatorDetails />
      {(id === null || interval.value !== null) && <SpanDetails />}
      {id === null && (
        <details class="details-hints">
          <summary>Pointer gestures</summary>
          <dl>
            {HINTS.map(([what, does]) => (
              <div key={what}>
                <dt>{what}</dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </aside>
  );
}
