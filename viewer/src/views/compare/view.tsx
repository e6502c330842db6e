// Compares two recordings: their timelines, growth, settings and peaks.

import { batch, type Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Button, Empty, Segmented, Select, type Choice } from '../../parts/controls';
import { useCurrent, type Current } from '../../parts/current';
import { GROUP_CHOICES } from '../../parts/grouping';
import { Split } from '../../parts/split';
import { SmallTimeline } from './small-timeline';
import type { Device, Recording } from '../../source/source';
import { chosenWay, other, otherMoment, way, type Way } from '../../state/compared';
import { groupBy } from '../../state/grouping';
import { moment, shownMoment } from '../../state/moment';
import { names, needNames, recording, recordings } from '../../state/recordings';
import { trouble } from '../../state/trouble';
import { reason } from '../../text/reason';
import { ChoosePart, Highest } from './highest';
import { Growth } from './moments';
import { titleOf, useParts, type Side } from './side';
import { Peaks, Settings, WhatChanged } from './told';

/** A recording that can be compared with the shown one. */
interface Other extends Choice<string> {
  file: number;
  device: number;
  of: Recording;
  recording: Device;
}

/** Returns every device of every file except the shown one. */
function others(first: Current): Other[] {
  return (recordings.value ?? []).flatMap((of, file) =>
    (of?.devices ?? []).flatMap((recording, device) => {
      if (!of || (file === first.file && device === first.device)) return [];
      return [{ value: `${file}.${device}`, label: titleOf(of, recording), file, device, of, recording }];
    }),
  );
}

export function View() {
  const first = useCurrent();
  const of = recording.value;
  if (!first || !of) return null;
  const choices = others(first);
  const wanted = other.value?.join('.');
  const chosen = choices.find((c) => c.value === wanted) ?? choices[0];
  if (!chosen) {
    return (
      <Empty title="There is nothing to compare with yet.">
        <p>
          Give two recordings, as in <code>vramscope view before.pickle after.pickle</code>, or drop a second one onto this page.
        </p>
      </Empty>
    );
  }
  return (
    <Compare
      key={`${first.scope}/${chosen.value}`}
      first={{ ...first, of, title: titleOf(of, first.recording) }}
      choices={choices}
      chosen={chosen}
    />
  );
}

/** The upper end of both timelines, as a multiple of the highest bytes. */
const HEADROOM = 1.04;

/** Returns the highest bytes of these devices, including allocated bytes, because some recordings lack reserved ones. */
const highest = (...all: Device[]) => Math.max(1, ...all.flatMap(({ peaks }) => [peaks.allocated.bytes, peaks.reserved.bytes]));

interface CompareProps {
  first: Side;
  choices: Other[];
  chosen: Other;
}

function Compare({ first: a, choices, chosen }: CompareProps) {
  const { file } = chosen;
  useEffect(() => {
    needNames(file).catch((e: unknown) => (trouble.value = reason(e)));
  }, [file]);
  const b: Side = { ...chosen, scope: chosen.value, names: names.value.get(file) ?? null, title: chosen.label };
  const atA = shownMoment.value;
  const atB = Math.min(otherMoment.value ?? b.recording.peaks.allocated.moment, b.recording.events);
  const high = highest(a.recording, b.recording) * HEADROOM;
  const byHighest = way.value === 'highest';
  const parts = { a: useParts(a), b: useParts(b) };
  const atPeaks = atA === a.recording.peaks.allocated.moment && atB === b.recording.peaks.allocated.moment;
  return (
    <div class="panel compare-view" data-other={chosen.value}>
      <header class="panel-head">
        <h2 class="visually-hidden">Comparison of two recordings</h2>
        <div class="toolbar">
          <Select
            label="Compare with"
            choices={choices}
            value={chosen.value}
            choose={(value) =>
              batch(() => {
                const next = choices.find((c) => c.value === value);
                if (next) other.value = [next.file, next.device];
                otherMoment.value = null;
              })
            }
          />
          <Segmented label="Compare" choices={WAY_CHOICES} value={way.value} choose={(of) => (chosenWay.value = of)} />
          {byHighest && <ChoosePart a={parts.a} b={parts.b} />}
          <Select label="Group by" choices={GROUP_CHOICES} value={groupBy.value} choose={(g) => (groupBy.value = g)} />
          <span class="spring" />
          {!byHighest && !atPeaks && (
            <Button
              onClick={() =>
                batch(() => {
                  moment.value = otherMoment.value = null;
                  chosenWay.value = 'moments';
                })
              }
            >
              Show both at their peaks
            </Button>
          )}
        </div>
      </header>
      <div class="small-timelines">
        <SmallTimeline {...a} title={`A  ${a.title}`} high={high} moment={atA} choose={(m) => chooseIn(moment, m)} />
        <SmallTimeline {...b} title={`B  ${b.title}`} high={high} moment={atB} choose={(m) => chooseIn(otherMoment, m)} />
      </div>
      <Split
        name="what-changed"
        pane="changes"
        panes="beside"
        sized="second"
        initial="min(480px, 45%)"
        least={200}
        first={byHighest ? <Highest a={parts.a} b={parts.b} /> : <Growth a={parts.a} b={parts.b} atA={atA} atB={atB} />}
        second={
          <div class="compare-side">
            <WhatChanged a={a} b={b} />
            <Peaks a={a.recording} b={b.recording} />
            <Settings a={a.of} b={b.of} />
          </div>
        }
      />
    </div>
  );
}

const WAY_CHOICES: Choice<Way>[] = [
  { value: 'highest', label: 'Each at its peak' },
  { value: 'moments', label: 'At moments' },
];

/** Chooses a moment of a recording, and compares moments instead of peaks. */
function chooseIn(which: Signal<number | null>, to: number): void {
  batch(() => {
    which.value = to;
    chosenWay.value = 'moments';
  });
}
