// Collects the chart's content from the state.

import type { Geometry } from '../draw/geometry';
import { placeOf, rowsBeforeRecording, rowsOf, spanOnAxis } from '../draw/hit';
import { placedNotes } from './note-shapes';
import type { Viewport } from '../numbers/scale';
import type { Picture } from '../source/source';
import { selection } from '../state/allocation';
import { against, shownMoment } from '../state/moment';
import { current } from '../state/recordings';
import { regions } from '../state/regions';
import { selected } from '../state/selection';
import { interval } from '../state/interval';
import { phases } from '../state/phases';
import { steps } from '../state/steps';
import { axis, stacked } from '../state/window';
import { dark, inks } from '../style/theme';
import { momentText } from '../parts/current';
import { bytes } from '../text/units';
import type { Scene } from './chart';
import { momentBytes, specks } from './model';

/** The rows of the selected item, cached per picture and selection. */
const outlines = new WeakMap<Picture, { id: number; rows: Uint16Array | null }>();

function outlineOf(picture: Picture, id: number): Uint16Array | null {
  const known = outlines.get(picture);
  if (known?.id === id) return known.rows;
  const item = picture.window.stacked === 'reserved' ? -1 : picture.items.id.indexOf(id);
  const rows = item < 0 ? null : rowsOf(picture, item);
  outlines.set(picture, { id, rows });
  return rows;
}

/** Returns the ends of the selected allocation's lifetime on the axis; null without a selection, or until its answer arrives. */
export function lifetime(): [number, number] | null {
  const allocation = selection.value;
  const device = current.value;
  if (!allocation || !device || allocation.id !== selected.value) return null;
  if (axis.value === 'events') return [allocation.from, allocation.to ?? device.events + 1];
  return [allocation.from_us ?? 0, allocation.to_us ?? device.duration_us ?? 0];
}

/** Returns the start of the selected allocation if it is smaller than a pixel, else null. */
function selectedSpeck({ from, to, low, high, width, height }: Viewport): number | null {
  const ends = lifetime();
  const size = selection.value?.bytes;
  if (!ends || size === undefined || stacked.value === 'reserved') return null;
  const isSmall = size < (high - low) / height || ends[1] - ends[0] < (to - from) / width;
  return isSmall && ends[1] >= from ? Math.max(ends[0], from) : null;
}

function momentLabel(at: number): string {
  const there = momentBytes.value;
  const moment = current.value ? momentText(at, current.value) : '';
  if (there?.moment !== at) return moment;
  return `${moment}: ${bytes(there.allocated)} allocated, ${bytes(there.reserved)} reserved`;
}

export function sceneOf(geometry: Geometry, viewport: Viewport, picture: Picture): Scene {
  const at = placeOf(picture, shownMoment.value);
  const rows = selected.value === null ? null : outlineOf(picture, selected.value);
  const before = rowsBeforeRecording(picture);
  const start = current.value?.start[picture.window.stacked] ?? 0;
  return {
    geometry,
    viewport,
    axis: picture.window.axis,
    inks: inks.value,
    dark: dark.value,
    notes: placedNotes(picture, viewport, geometry.noteRows),
    regions: regions.value,
    phases: phases.value,
    steps: steps.value,
    markers: current.value?.markers ?? [],
    moment: at === null ? null : { at, label: momentLabel(shownMoment.value) },
    span: interval.value && spanOnAxis(picture, interval.value),
    against: against.value === null ? null : placeOf(picture, against.value),
    outlined: rows && { picture, rows },
    lifetime: lifetime(),
    specks: specks.value?.places ?? [],
    selectedSpeck: selectedSpeck(viewport),
    before:
      before === 0
        ? null
        : {
            height: (before / picture.window.height) * geometry.plotHeight,
            label: `${bytes(start)} live before recording began`,
          },
  };
}
