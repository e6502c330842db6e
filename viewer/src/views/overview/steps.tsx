// The steps of the program: each peak, and the figures of the first, a typical and the highest step.

import { batch } from '@preact/signals';
import { entryAt } from '../../numbers/at';
import type { Steps } from '../../source/source';
import { view } from '../../state/place';
import { showStep } from '../../state/steps';
import { count, signedBytes, stepNumber } from '../../text/units';
import { BytesCell, Card, TableHead, ViewLink, exactBytes } from './card';
import { StepBars } from './step-bars';

/** Zooms to a step in the timeline. */
function go(step: number): void {
  batch(() => {
    view.value = 'timeline';
    showStep(step);
  });
}

export function StepsCard({ steps }: { steps: Steps }) {
  const { highest, median, first_unusual: unusual } = steps;
  // If there are too few steps for a median, all are shown.
  const all = steps.peak.flatMap((_, step): [string, number][] => (median === null ? [['', step]] : []));
  const told: [name: string, step: number | null][] = [
    ...all,
    ['the first', 0],
    ['the median peak', median],
    ['the highest peak', highest],
    ['the first that differs', unusual],
  ];
  // A step with several roles has one row.
  const shown = new Map<number, string[]>();
  for (const [name, step] of told)
    if (step !== null) shown.set(step, [...(shown.get(step) ?? []), ...(name === '' ? [] : [name])]);
  return (
    <Card title={`${count(steps.peak.length)} steps`}>
      <StepBars steps={steps} choose={go} />
      <table class="numbers">
        <TableHead columns={{ Step: 'words', Peak: 'numeric', Allocated: 'numeric', Kept: 'numeric', Blocks: 'numeric' }} />
        <tbody>
          {[...shown].map(([step, names]) => (
            <tr key={step}>
              <th scope="row" class="wide">
                <button type="button" class="link-button" onClick={() => go(step)}>
                  {stepNumber(step)}
                </button>
                {names.map((name) => `, ${name}`).join('')}
              </th>
              <BytesCell n={entryAt(steps.peak, step)} />
              <BytesCell n={entryAt(steps.allocated, step)} />
              <td class="numeric" title={exactBytes(entryAt(steps.kept, step))}>
                {signedBytes(entryAt(steps.kept, step))}
              </td>
              <td class="numeric">{count(entryAt(steps.allocations, step))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>{steps.told}</p>
      <p class="finding-links">
        <ViewLink to="moment" moment={entryAt(steps.peak_moment, highest)}>
          Show the moment of the highest peak
        </ViewLink>
      </p>
    </Card>
  );
}
