// The row of phases above the plot: the visible phases, their names, and the phase at a position.

import { entryAt } from '../numbers/at';
import type { Viewport } from '../numbers/scale';
import { keptByAxis, momentsOnAxis, rowOf, spanAt, type Row } from '../numbers/spans';
import { PHASES, type Axis, type Phases } from '../source/source';
import { phaseName } from '../text/units';

/** All phases as one row: they do not overlap. */
export const phaseRow = keptByAxis(
  (phases: Phases, axis): Row => rowOf([...phases.phase.keys()], (number) => momentsOnAxis(phases, number, axis)),
);

/** Returns the phase at a position on the axis, or null. */
export const phaseAt = (phases: Phases, axis: Axis, viewport: Viewport, at: number): number | null =>
  spanAt(phaseRow(phases, axis), viewport, at);

/** Returns the name of a phase. */
export const nameOfPhase = (phases: Phases, number: number): string => phaseName(PHASES[entryAt(phases.phase, number)] ?? '');
