// The controls of the timeline: stacked bytes, axis, colors.

import { batch } from '@preact/signals';
import { Select } from '../parts/controls';
import { SaveMenu } from '../save/menu';
import { onlyQuery } from '../search/found';
import { drawingItems } from '../save/picture';
import { KINDS, type Axis } from '../source/source';
import { itemsBy } from '../draw/item-colors';
import { COLORS, chosenColor } from '../state/grouping';
import { fit } from '../state/moves';
import { operatorLanes, showsOperators } from '../state/operators';
import { current } from '../state/recordings';
import { axis, range, byteRange, stacked, withReserved } from '../state/window';
import { timelineDrawing } from './drawing';
import { tall } from './model';

const STACKED = KINDS.map((kind) => ({ value: kind, label: kind === 'reserved' ? 'reserved ranges' : kind }));
const COLORED = COLORS.map((by) => ({ value: by, label: by === 'allocation' ? 'each allocation' : by }));
const EVENTS = { value: 'events' as Axis, label: 'events' };
const TIME = { value: 'time' as Axis, label: 'time' };

export function TimelineControls() {
  const timed = current.value?.origin_us != null;
  return (
    <div class="controls" role="group" aria-label="Timeline">
      <Select
        label="Bytes"
        choices={STACKED}
        value={stacked.value}
        choose={(kind) =>
          batch(() => {
            stacked.value = kind;
            byteRange.value = null;
          })
        }
      />
      <Select
        label="Along"
        choices={timed ? [EVENTS, TIME] : [EVENTS]}
        value={axis.value}
        choose={(along) =>
          batch(() => {
            axis.value = along;
            range.value = null;
          })
        }
      />
      <Select label="Color" choices={COLORED} value={itemsBy.value} choose={(by) => (chosenColor.value = by)} />
      <button
        type="button"
        class="button"
        aria-pressed={withReserved.value}
        disabled={onlyQuery.value !== null}
        title="Leave room for the line of reserved bytes"
        onClick={() => (withReserved.value = !withReserved.value)}
      >
        Fit reserved
      </button>
      {operatorLanes.value && tall.value && (
        <button
          type="button"
          class="button"
          aria-pressed={showsOperators.value}
          title={`Show the operators of ${operatorLanes.value.name}`}
          onClick={() => (showsOperators.value = !showsOperators.value)}
        >
          Operators
        </button>
      )}
      <button type="button" class="button" disabled={!range.value && !byteRange.value} title="Show everything (0)" onClick={fit}>
        Fit
      </button>
      <SaveMenu name="timeline" items={drawingItems(timelineDrawing)} />
    </div>
  );
}
