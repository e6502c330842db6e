// The operators of a trace of torch.profiler beside the shown recording, and the chosen one.

import { batch, computed, effect, signal } from '@preact/signals';
import type { OperatorFacts } from '../source/source';
import { reason } from '../text/reason';
import { asked } from './asked';
import { inAddressOfDevice, inAddress, twoWholeNumbers, unless } from './in-address';
import { showSelected } from './moves';
import { device, file, view } from './place';
import { current, source } from './recordings';
import { chooseInterval, interval } from './interval';
import { selected } from './selection';
import { trouble } from './trouble';
import { axis } from './window';

/** Counts the traces that were added, so that the lanes are asked for again. */
const added = signal(0);

const events = computed(() => current.value?.events ?? null);

/** The lanes; null without a trace, and until they are known. */
export const operatorLanes = asked(() => {
  void added.value;
  if (events.value === null) return null;
  return source.ask(file.value, device.value, { question: 'operator_lanes' });
});

/** Whether the lanes are shown. */
export const showsOperators = inAddress('operators', unless('hidden'), true);

/** The chosen operator: its lane, and its index there. */
export const operator = inAddressOfDevice('operator', twoWholeNumbers, null);

const factsOf = ([lane, at]: readonly [number, number]) =>
  source.ask(file.value, device.value, { question: 'operator', lane, span: at });

/** The chosen operator with its facts; the facts may still be those of the one before. */
const told = asked(() => {
  const of = operator.value;
  if (!of || !operatorLanes.value) return null;
  return factsOf(of).then((facts) => ({ of, facts }));
});

/** The facts about the chosen operator; null without one, and until they are known. */
export const operatorFacts = computed(() => (told.value && told.value.of === operator.value ? told.value.facts : null));

// Another interval is no longer that of the operator.
effect(() => {
  const facts = operatorFacts.value;
  if (!facts) return;
  const isOwn = interval.value ? interval.value[0] === facts.from && interval.value[1] === facts.to : facts.from === facts.to;
  if (!isOwn) operator.value = null;
});

const endsOf = (facts: OperatorFacts) => (axis.value === 'time' ? facts.at_us : facts.at);

/** The ends of the chosen operator on the axis. */
export const operatorEnds = computed(() => operatorFacts.value && endsOf(operatorFacts.value));

/** Shows the lanes of a trace that was just added. */
export function showNewOperators(): void {
  batch(() => {
    added.value += 1;
    operator.value = null;
    showsOperators.value = true;
    view.value = 'timeline';
  });
}

/** Chooses an operator, and its events as the interval; zooms to it on request. */
export async function chooseOperator(lane: number, at: number, zooms = false): Promise<void> {
  try {
    const facts = await factsOf([lane, at]);
    batch(() => {
      operator.value = [lane, at];
      selected.value = null;
      chooseInterval([facts.from, facts.to]);
      if (zooms) showEnds(facts);
    });
  } catch (e) {
    trouble.value = reason(e);
  }
}

/** Clears the chosen operator and its interval. */
export function clearOperator(): void {
  batch(() => {
    operator.value = null;
    interval.value = null;
  });
}

/** Zooms to the chosen operator. */
export function showOperator(): void {
  if (operatorFacts.value) showEnds(operatorFacts.value);
}

/** Shows an operator, with a tenth of it on each side. */
function showEnds(facts: OperatorFacts): void {
  const ends = endsOf(facts);
  if (!ends) return;
  const around = (ends[1] - ends[0]) * 0.1;
  showSelected([ends[0] - around, ends[1] + around]);
}
