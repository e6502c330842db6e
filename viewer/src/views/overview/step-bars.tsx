// The peak of each step as bars. If there is no room for all, each bar shows the highest of a few consecutive steps.

import { useState } from 'preact/hooks';
import { entryAt } from '../../numbers/at';
import { highestOfGroups } from './groups';
import { StepFacts } from '../../parts/step-facts';
import { Tooltip } from '../../parts/tooltip';
import type { Steps } from '../../source/source';
import { bytes, count, stepNumber } from '../../text/units';

/** The most bars, so that each is wide enough to click. */
const MOST = 160;
/** The greatest width of a bar, in CSS pixels. */
const WIDEST = 40;
/** From this many bars on there is no gap between them. */
const DENSE = 80;

export function StepBars({ steps, choose }: { steps: Steps; choose: (step: number) => void }) {
  const [hover, setHover] = useState<{ step: number; x: number; y: number } | null>(null);
  const bars = highestOfGroups(steps.peak, MOST);
  const most = Math.max(entryAt(steps.peak, steps.highest), 1);
  const width = bars.length < DENSE ? 0.85 : 1;
  const unusual = new Set(steps.unusual);
  const barAt = (e: MouseEvent) => {
    const { left, width } = (e.currentTarget as Element).getBoundingClientRect();
    return bars[Math.floor(((e.clientX - left) / width) * bars.length)];
  };
  const move = (e: MouseEvent) => {
    const step = barAt(e);
    setHover(step === undefined ? null : { step, x: e.clientX, y: e.clientY });
  };
  const click = (e: MouseEvent) => {
    const step = barAt(e);
    if (step !== undefined) choose(step);
  };
  const kind = (step: number) => (step === steps.highest ? 'step-highest' : unusual.has(step) ? 'step-unusual' : undefined);
  return (
    <figure class="step-bars">
      <svg
        style={{ maxWidth: `${WIDEST * bars.length}px` }}
        viewBox={`0 0 ${bars.length} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`The peak of each step: the highest is ${bytes(most)}, in step ${stepNumber(steps.highest)} of ${count(steps.peak.length)}.`}
        onMouseMove={move}
        onMouseLeave={() => setHover(null)}
        onClick={click}
      >
        {bars.map((step, i) => {
          const height = (entryAt(steps.peak, step) / most) * 100;
          return <rect key={step} class={kind(step)} x={i} y={100 - height} width={width} height={height} />;
        })}
      </svg>
      <figcaption class="quiet">
        <span>Peak of each step, from 0 to {bytes(most)}</span>
        <span class="step-key step-highest">the highest</span>
        {bars.some((step) => kind(step) === 'step-unusual') && (
          <span class="step-key step-unusual">allocations differ from most steps</span>
        )}
      </figcaption>
      {hover && (
        <Tooltip x={hover.x} y={hover.y}>
          <StepFacts steps={steps} step={hover.step} />
          <p class="quiet">Click to show it in the timeline.</p>
        </Tooltip>
      )}
    </figure>
  );
}
