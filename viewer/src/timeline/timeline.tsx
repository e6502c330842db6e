// The timeline above every view: tall in its own view, a strip in the others.

import { useEffect, useRef, useState } from 'preact/hooks';
import { shownMoment } from '../state/moment';
import { operatorLanes, showsOperators } from '../state/operators';
import { current, recordings } from '../state/recordings';
import { SelectionBar } from './allocation';
import { listen, type Hover } from './gestures';
import { Legend } from './legend';
import { Minimap } from './minimap';
import { specks, tall } from './model';
import { Operators } from './operators';
import { SpanBar } from './interval';
import { mountStage, type Stage } from './stage';
import { TimelineTooltip } from './tooltip';
import { spoken } from './walk';

export function Timeline() {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const stage = useRef<Stage | null>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  const [choice, setChoice] = useState<[number, number] | null>(null);

  useEffect(() => {
    const mounted = mountStage({ box: box.current!, plot: plot.current!, base: base.current!, over: over.current! });
    stage.current = mounted;
    const stopListening = listen({
      canvas: over.current!,
      geometry: () => mounted.geometry.value,
      viewport: () => mounted.viewport.value,
      hovered: setHover,
      choosing: setChoice,
    });
    return () => {
      stopListening();
      mounted.stop();
    };
  }, []);

  const g = stage.current?.geometry.value;
  const hair = hover?.target.kind === 'plot' ? hover.x : null;
  return (
    <section class={tall.value ? 'timeline timeline-tall' : 'timeline'} aria-label="Timeline">
      {tall.value && operatorLanes.value && showsOperators.value && <Operators lanes={operatorLanes.value} />}
      <div
        ref={box}
        class="timeline-box"
        id="timeline"
        // The whole chart is one stop: its value is the shown moment, and arrows change it.
        role="slider"
        tabIndex={0}
        aria-label="Timeline: up and down change the moment, PageUp and PageDown walk its blocks, z zooms to the selected block"
        aria-valuemin={0}
        aria-valuemax={current.value?.events ?? 0}
        aria-valuenow={shownMoment.value}
        aria-valuetext={spoken.value}
        data-specks={specks.value?.count ?? 0}
      >
        <div ref={plot} class="timeline-plot">
          <canvas ref={base} aria-hidden="true" />
        </div>
        <canvas ref={over} class="timeline-over" role="img" aria-label="Timeline, not drawn yet." />
        {g && hair !== null && (
          <div class="timeline-hair" style={{ left: `${hair}px`, top: `${g.top}px`, height: `${g.plotHeight}px` }} />
        )}
        {g && choice && (
          <div
            class="timeline-choice"
            style={{
              left: `${choice[0]}px`,
              width: `${choice[1] - choice[0]}px`,
              top: `${g.top}px`,
              height: `${g.plotHeight}px`,
            }}
          />
        )}
        {recordings.value && current.value?.events === 0 && (
          <p class="timeline-note">No events were recorded; this is the state when the file was written.</p>
        )}
      </div>
      <Minimap />
      <div class="timeline-foot">
        <Legend />
        {!tall.value && <SpanBar />}
        {!tall.value && <SelectionBar />}
      </div>
      {hover && <TimelineTooltip {...hover} />}
    </section>
  );
}
