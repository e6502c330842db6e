// The phases of one step: the memory that each allocated and retained.

import { batch } from '@preact/signals';
import { useState } from 'preact/hooks';
import { nameOfPhase } from '../../draw/phase-row';
import { entryAt } from '../../numbers/at';
import type { Phases, Steps } from '../../source/source';
import { showPhase } from '../../state/phases';
import { view } from '../../state/place';
import { count, signedBytes } from '../../text/units';
import { BytesCell, Card, TableHead, exactBytes } from './card';

/** The sums of the phases of one kind in a step, and the first of them. */
interface Total {
  name: string;
  first: number;
  number: number;
  peak: number;
  allocated: number;
  allocations: number;
  kept: number;
}

/** Returns the sums of a step's phases by kind, in the order in which each first occurs; null: those outside of all steps. */
function totalsOf(phases: Phases, step: number | null): Total[] {
  const totals = new Map<string, Total>();
  phases.step.forEach((of, phase) => {
    if (of !== step) return;
    const name = nameOfPhase(phases, phase);
    const total = totals.get(name) ?? { name, first: phase, number: 0, peak: 0, allocated: 0, allocations: 0, kept: 0 };
    total.number += 1;
    total.peak = Math.max(total.peak, entryAt(phases.peak, phase));
    total.allocated += entryAt(phases.allocated, phase);
    total.allocations += entryAt(phases.allocations, phase);
    total.kept += entryAt(phases.kept, phase);
    totals.set(name, total);
  });
  return [...totals.values()];
}

/** Zooms to a phase in the timeline. */
function go(phase: number): void {
  batch(() => {
    view.value = 'timeline';
    showPhase(phase);
  });
}

export function PhasesCard({ phases, steps }: { phases: Phases; steps: Steps | null }) {
  const last = (steps?.peak.length ?? 0) - 1;
  const [chosen, choose] = useState(steps?.median ?? Math.min(last, 1));
  const totals = totalsOf(phases, steps ? chosen : null);
  return (
    <Card title="Phases">
      {steps && (
        <label class="phases-step">
          Of step{' '}
          <input
            type="number"
            min={1}
            max={last + 1}
            value={chosen + 1}
            onChange={({ currentTarget: { valueAsNumber, validity } }) => {
              if (validity.valid && !Number.isNaN(valueAsNumber)) choose(valueAsNumber - 1);
            }}
          />
        </label>
      )}
      <table class="numbers">
        <TableHead columns={{ Phase: 'words', Peak: 'numeric', Allocated: 'numeric', Retained: 'numeric', Blocks: 'numeric' }} />
        <tbody>
          {totals.map(({ name, first, number, peak, allocated, allocations, kept }) => (
            <tr key={name} data-phase={name}>
              <th scope="row" class="wide">
                <button type="button" class="link-button" onClick={() => go(first)}>
                  {name}
                </button>
                {number > 1 && `, ${count(number)} times`}
              </th>
              <BytesCell n={peak} />
              <BytesCell n={allocated} />
              <td class="numeric" title={exactBytes(kept)}>
                {signedBytes(kept)}
              </td>
              <td class="numeric">{count(allocations)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {totals.length === 0 && <p>No phases of this step are known.</p>}
      <p>{phases.told}</p>
    </Card>
  );
}
