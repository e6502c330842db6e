// The memory of a step or of a phase, for tooltips.

import { nameOfPhase } from '../draw/phase-row';
import { entryAt, numberAt } from '../numbers/at';
import type { Phases, Steps } from '../source/source';
import { bytes, count, duration, signedBytes, stepNumber } from '../text/units';
import { eventsText } from './current';
import { Facts } from './tooltip';

export function StepFacts({ steps, step }: { steps: Steps; step: number }) {
  const [from, to] = [numberAt(steps.from, step), numberAt(steps.to, step)];
  const facts: [string, string][] = [
    ['peak', bytes(entryAt(steps.peak, step))],
    ['allocated', `${bytes(entryAt(steps.allocated, step))} in ${count(entryAt(steps.allocations, step))} blocks`],
    ['kept', signedBytes(entryAt(steps.kept, step))],
    // A step's first moment follows its first event.
    ['events', eventsText(from - 1, to - 1)],
  ];
  if (steps.from_us.length > 0) facts.push(['took', duration(numberAt(steps.to_us, step) - numberAt(steps.from_us, step))]);
  return (
    <>
      <p class="tooltip-title">Step {stepNumber(step)}</p>
      <Facts facts={facts} />
      {steps.unusual.includes(step) && <p>Its allocations differ from most steps'.</p>}
    </>
  );
}

export function PhaseFacts({ phases, phase }: { phases: Phases; phase: number }) {
  const step = phases.step[phase] ?? null;
  const facts: [string, string][] = [
    ['allocated', `${bytes(entryAt(phases.allocated, phase))} in ${count(entryAt(phases.allocations, phase))} blocks`],
    ['peak', bytes(entryAt(phases.peak, phase))],
    ['retained', signedBytes(entryAt(phases.kept, phase))],
    ['events', eventsText(numberAt(phases.from, phase), numberAt(phases.to, phase))],
  ];
  if (phases.from_us.length > 0) facts.push(['took', duration(numberAt(phases.to_us, phase) - numberAt(phases.from_us, phase))]);
  return (
    <>
      <p class="tooltip-title">
        {nameOfPhase(phases, phase)}
        {step !== null && ` of step ${stepNumber(step)}`}
        {phases.is_inferred[phase] && ' (inferred)'}
      </p>
      <Facts facts={facts} />
    </>
  );
}
