// What the timeline stacks, along what, in which colours.

import { KINDS } from '../source/source';
import { SaveMenu } from '../save/menu';
import { drawingItems } from '../save/picture';
import { axis, COLORS, colorBy, current, range, span, stacked } from '../state';
import { batch } from '@preact/signals';
import { timelineDrawing } from './drawing';
import { withReserved } from './model';
import { fit } from './moves';

function Choice<T extends string>({ label, all, value, choose, name = (v) => v }: {
  label: string;
  all: readonly T[];
  value: T;
  choose: (value: T) => void;
  name?: (value: T) => string;
}) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(e) => choose(e.currentTarget.value as T)}>
        {all.map((v) => <option key={v} value={v}>{name(v)}</option>)}
      </select>
    </label>
  );
}

export function TimelineControls() {
  const untimed = current.value?.origin_us == null;
  return (
    <div class="controls" role="group" aria-label="Timeline">
      <Choice label="Stack" all={KINDS} value={stacked.value} name={(k) => (k === 'reserved' ? 'reserved ranges' : k)}
        choose={(kind) => batch(() => {
          stacked.value = kind;
          span.value = null;
        })} />
      <Choice label="Along" all={untimed ? ['events'] : ['events', 'time']} value={axis.value}
        choose={(along) => batch(() => {
          axis.value = along;
          range.value = null;
        })} />
      <Choice label="Colour" all={COLORS} value={colorBy.value} choose={(by) => (colorBy.value = by)} />
      <button type="button" class="button" aria-pressed={withReserved.value} title="Leave room for the line of reserved bytes"
        onClick={() => (withReserved.value = !withReserved.value)}>
        Reserved
      </button>
      <button type="button" class="button" disabled={!range.value && !span.value} title="Show everything (0)" onClick={fit}>
        Fit
      </button>
      <SaveMenu name="timeline" items={drawingItems(timelineDrawing)} />
    </div>
  );
}
