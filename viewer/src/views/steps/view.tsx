// The outlines of several steps over each other, aligned at one event, also of several recordings; and where each differs from one of them.

import { useEffect, useState } from 'preact/hooks';
import { byteTicks } from '../../draw/ticks';
import { entryAt } from '../../numbers/at';
import { useAnswer } from '../../parts/answer';
import { Button, Empty, Select, Waiting, type Choice } from '../../parts/controls';
import { useCurrent, type Current } from '../../parts/current';
import { useSize } from '../../parts/size';
import { Split } from '../../parts/split';
import { Tooltip } from '../../parts/tooltip';
import { SaveMenu } from '../../save/menu';
import { drawingItems } from '../../save/picture';
import type { Axis, Device, Recording } from '../../source/source';
import { chooseMoment } from '../../state/moves';
import {
  ALIGNMENTS,
  MOST_STEPS,
  alignment,
  overlaid,
  referenceStep,
  toOverlay,
  type Alignment,
  type OverlaidStep,
} from '../../state/overlaid';
import { isToRead, ranks } from '../../state/files';
import { needMeaning, recordings } from '../../state/recordings';
import { trouble } from '../../state/trouble';
import { axis } from '../../state/window';
import { css, groupColor, lifted } from '../../style/colors';
import { dark } from '../../style/theme';
import { reason } from '../../text/reason';
import { bytes, capital, count, duration, signedBytes, stepNumber } from '../../text/units';
import { titleOf } from '../compare/side';
import { BytesCell, TableHead, counted, exactBytes } from '../overview/card';
import { LEFT, RIGHT, TOP, BOTTOM, highOf, stepsDrawing, ticksOf, type Drawn } from './drawing';
import {
  aligned,
  commonAxis,
  differenceOf,
  outlineOf,
  pathOf,
  typicalStep,
  usualSteps,
  type AlignedStep,
  type Difference,
} from './lines';

/** An open device, by its position. */
interface OpenDevice {
  file: number;
  device: number;
  recording: Device;
  title: string;
}

const key = ({ file, device }: { file: number; device: number }) => `${file}.${device}`;

function openDevices(): OpenDevice[] {
  return (recordings.value ?? []).flatMap((of: Recording | null, file) =>
    (of?.devices ?? []).flatMap((recording, device) =>
      of && recording.events > 0 ? [{ file, device, recording, title: titleOf(of, recording) }] : [],
    ),
  );
}

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  const { recording } = shown;
  if (recording.purposes === null) return <Waiting error={null} what="Finding the steps." />;
  if (!recording.steps)
    return (
      <Empty title="No steps were found.">
        <p>The program does not repeat itself, or the recording has too little of it.</p>
      </Empty>
    );
  return <Overlaid key={shown.scope} shown={shown} steps={recording.steps} />;
}

/** Returns the drawn steps, and the position of the reference among them. */
function chosenSteps({ file, device, recording }: Current, steps: NonNullable<Device['steps']>): [OverlaidStep[], number] {
  const all = overlaid.value ?? usualSteps(recording).map((step) => ({ file, device, step }));
  const typical = all.findIndex((one) => key(one) === `${file}.${device}` && one.step === typicalStep(steps));
  return [[...all], Math.min(Math.max(referenceStep.value ?? typical, 0), all.length - 1)];
}

const ALIGNED: Record<Alignment, string> = {
  step: 'the start of the step',
  forward: 'the forward pass',
  backward: 'the backward pass',
  optimizer: 'the optimizer',
  zero_grad: 'zero grad',
};

const AXES: Choice<Axis>[] = [
  { value: 'events', label: 'events' },
  { value: 'time', label: 'time' },
];

function Overlaid({ shown, steps }: { shown: Current; steps: NonNullable<Device['steps']> }) {
  const open = openDevices();
  const [all, at] = chosenSteps(shown, steps);
  // Steps follow from the categories of their recording.
  useEffect(() => {
    for (const { file, device } of all) needMeaning(file, device).catch((e: unknown) => (trouble.value = reason(e)));
  });
  const over = axis.value === 'time' && shown.recording.origin_us !== null ? 'time' : 'events';
  const places = all.map((one) => {
    const of = open.find((device) => key(device) === key(one));
    return of ? aligned(one, of, alignment.value, over) : null;
  });
  const set = (next: OverlaidStep[], reference: number) => {
    overlaid.value = next;
    referenceStep.value = reference;
  };
  const kinds = new Set(shown.recording.phases?.phase.map((kind) => ALIGNMENTS[kind + 1]));
  const choices = ALIGNMENTS.filter((one) => one === 'step' || kinds.has(one) || one === alignment.value);
  const hasSeveral = new Set(all.map(key)).size > 1;
  const titles = places.map((place, i) => titleOfStep(all[i]!, place, hasSeveral));
  const reference = places[at] ?? null;
  return (
    <div class="panel steps-view" data-steps={all.length}>
      <header class="panel-head">
        <h2 class="visually-hidden">Steps over each other</h2>
        <div class="toolbar">
          <Select
            label="Align at"
            choices={choices.map((value) => ({ value, label: ALIGNED[value] }))}
            value={alignment.value}
            choose={(to) => (alignment.value = to)}
          />
          <Select label="Along" choices={AXES} value={over} choose={(to) => (axis.value = to)} />
          <Select
            label="Compare with"
            choices={titles.map((label, i) => ({ value: String(i), label }))}
            value={String(at)}
            choose={(to) => set(all, Number(to))}
          />
          <AddStep open={open} shown={shown} all={all} add={(one) => set([...all, one], at)} />
          <span class="spring" />
          {overlaid.value && (
            <Button
              onClick={() => {
                overlaid.value = referenceStep.value = null;
              }}
            >
              Show the usual steps
            </Button>
          )}
        </div>
      </header>
      <Lines
        places={places}
        titles={titles}
        over={over}
        reference={reference}
        shown={shown}
        remove={
          all.length > 1
            ? (i) =>
                set(
                  all.filter((_, of) => of !== i),
                  i < at ? at - 1 : Math.min(at, all.length - 2),
                )
            : null
        }
      />
    </div>
  );
}

function titleOfStep({ step }: OverlaidStep, place: AlignedStep | null, hasSeveral: boolean): string {
  const name = `step ${stepNumber(step)}`;
  return hasSeveral && place ? `${name}, ${place.title}` : name;
}

interface AddStepProps {
  open: OpenDevice[];
  shown: Current;
  all: OverlaidStep[];
  add: (step: OverlaidStep) => void;
}

/** Returns the ranks whose recordings are not read yet. */
const ranksToRead = (): Choice<string>[] =>
  (ranks.value?.ranks ?? []).flatMap(({ rank }, file) => (isToRead(file) ? [{ value: `${file}.0`, label: `rank ${rank}` }] : []));

/** Adds a step of an open recording, by its number. */
function AddStep({ open, shown, all, add }: AddStepProps) {
  const [of, setOf] = useState(`${shown.file}.${shown.device}`);
  const unread = ranksToRead();
  const [step, setStep] = useState<number | null>(null);
  const from = open.find((one) => key(one) === of);
  const most = from?.recording.steps?.peak.length ?? 0;
  useEffect(() => {
    if (from) needMeaning(from.file, from.device).catch((e: unknown) => (trouble.value = reason(e)));
  }, [from?.file, from?.device]);
  const one = !from || step === null || step > most ? null : { file: from.file, device: from.device, step: step - 1 };
  const isNew = one !== null && !all.some((other) => key(other) === key(one) && other.step === one.step);
  const submit = (e: Event) => {
    e.preventDefault();
    if (one && isNew && all.length < MOST_STEPS) add(one);
  };
  return (
    <form class="button-row" onSubmit={submit}>
      <label class="select">
        <span>Add step</span>
        <input
          type="number"
          min={1}
          max={Math.max(most, 1)}
          value={step ?? ''}
          onInput={({ currentTarget: { valueAsNumber, validity } }) =>
            setStep(validity.valid && !Number.isNaN(valueAsNumber) ? valueAsNumber : null)
          }
        />
      </label>
      {open.length + unread.length > 1 && (
        <Select
          label="of"
          choices={[...open.map((device) => ({ value: key(device), label: device.title })), ...unread]}
          value={of}
          choose={(to) => {
            setOf(to);
            toOverlay.value = Number(to.split('.')[0]);
          }}
        />
      )}
      <button type="submit" class="button" disabled={!isNew || all.length >= MOST_STEPS}>
        Add
      </button>
    </form>
  );
}

/** Group colors that are distinct as lines, by position. */
const LINE_COLORS = [1, 12, 7, 2, 9, 8, 4, 0];

function lineColor(position: number, isDark: boolean): string {
  const color = groupColor(LINE_COLORS[position % LINE_COLORS.length] ?? 0, false, false);
  return css(isDark ? lifted(color, 0.12) : color);
}

interface LinesProps {
  places: readonly (AlignedStep | null)[];
  titles: readonly string[];
  over: Axis;
  reference: AlignedStep | null;
  shown: Current;
  remove: ((position: number) => void) | null;
}

function Lines({ places, titles, over, reference, shown, remove }: LinesProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const drawn = places.filter((place) => place !== null);
  const common = commonAxis(drawn);
  const width = Math.max(Math.floor(size.width - LEFT - RIGHT), 0);
  const ends = places.map((place) => place && [place.file, place.device, place.at, ...place.ends].join('.')).join(' ');
  const outlines = useAnswer(
    shown.scope,
    `${ends} ${over} ${width}`,
    width > 0 ? (unwanted) => Promise.all(places.map((place) => place && outlineOf(place, common, width, over, unwanted))) : null,
  );
  const differences = useAnswer(
    shown.scope,
    `${ends} ${reference?.file}.${reference?.device}.${reference?.at}`,
    reference &&
      ((unwanted) =>
        Promise.all(places.map((place) => (place && place !== reference ? differenceOf(place, reference, unwanted) : null)))),
  );
  const colors = places.map((_, i) => lineColor(i, dark.value));
  const error = outlines.error ?? differences.error;
  const isReady = outlines.value !== null && differences.value !== null && !outlines.pending && !differences.pending;
  const plot = outlines.value &&
    !outlines.pending &&
    width > 0 && { outlines: outlines.value, colors, titles, width, height: size.height, common, over };
  return (
    <div class="steps-lines" aria-busy={!isReady && error === null}>
      {plot && <SaveMenu name="steps" items={drawingItems(() => stepsDrawing(plot, ALIGNED[alignment.value]))} />}
      <p class="steps-told" role="status">
        {error ??
          (differences.value && !differences.pending && reference ? summary(places, titles, differences.value, reference) : '')}
      </p>
      <Split
        name="steps"
        pane="table of steps"
        panes="above"
        sized="second"
        initial="auto"
        most="50%"
        least={100}
        first={
          <div ref={box} class="steps-plot">
            {plot && <Plot {...plot} />}
          </div>
        }
        second={
          <div class="steps-rows" role="region" aria-label="Steps" tabIndex={0}>
            <table class="numbers">
              <TableHead
                columns={{
                  Step: 'words',
                  Peak: 'numeric',
                  Allocated: 'numeric',
                  Retained: 'numeric',
                  'First difference': 'words',
                  Remove: 'words',
                }}
              />
              <tbody>
                {places.map((place, i) => (
                  <StepRow
                    key={`${titles[i]} ${i}`}
                    place={place}
                    title={titles[i]!}
                    color={colors[i]!}
                    isReference={place !== null && place === reference}
                    difference={differences.pending ? null : (differences.value?.[i] ?? null)}
                    shown={shown}
                    remove={remove && (() => remove(i))}
                  />
                ))}
              </tbody>
            </table>
          </div>
        }
      />
    </div>
  );
}

/** Names the steps that differ from the reference, and those that do not. */
function summary(
  places: readonly (AlignedStep | null)[],
  titles: readonly string[],
  differences: readonly (Difference | null)[],
  reference: AlignedStep,
): string {
  const name = titles[places.indexOf(reference)] ?? '';
  const named = (isIt: (difference: Difference) => boolean) => titles.filter((_, i) => differences[i] && isIt(differences[i]));
  const [same, different] = [named(({ isSame }) => isSame), named(({ isSame }) => !isSame)];
  const parts = [
    different.length > 0 && `${listed(different)} ${different.length === 1 ? 'differs' : 'differ'} from ${name}.`,
    same.length > 0 && `${listed(same)} ${same.length === 1 ? 'has' : 'have'} the outline of ${name}.`,
  ].filter((part) => part !== false);
  return parts.map(capital).join(' ');
}

/** Joins names: `a`, `a and b`, `a; b and c`. */
const listed = (all: readonly string[]): string =>
  all.length < 2 ? all.join('') : `${all.slice(0, -1).join('; ')} and ${entryAt(all, all.length - 1)}`;

interface StepRowProps {
  place: AlignedStep | null;
  title: string;
  color: string;
  isReference: boolean;
  difference: Difference | null;
  shown: Current;
  remove: (() => void) | null;
}

function StepRow({ place, title, color, isReference, difference, shown, remove }: StepRowProps) {
  const steps = place?.recording.steps;
  const step = place?.step ?? 0;
  return (
    <tr data-step={title}>
      <th scope="row">
        <span class="steps-key" style={{ background: color }} aria-hidden="true" />
        {title}
      </th>
      {steps ? (
        <>
          <BytesCell n={entryAt(steps.peak, step)} />
          <BytesCell n={entryAt(steps.allocated, step)} />
          <td class="numeric" title={exactBytes(entryAt(steps.kept, step))}>
            {signedBytes(entryAt(steps.kept, step))}
          </td>
        </>
      ) : (
        <td colSpan={3}>This step, or the event at which steps are aligned, is not in the recording.</td>
      )}
      <td class="wide">
        {isReference && 'the others are compared with it'}
        {place && difference && <Parts place={place} difference={difference} shown={shown} />}
      </td>
      <td>
        {remove && (
          <button type="button" class="link-button" aria-label={`Remove ${title}`} title="Remove" onClick={remove}>
            ×
          </button>
        )}
      </td>
    </tr>
  );
}

/** Where a step differs from the reference. */
function Parts({ place, difference, shown }: { place: AlignedStep; difference: Difference; shown: Current }) {
  const { isSame, shared, moment, change, otherChange } = difference;
  if (isSame) return <>none in {counted(shared, 'change')}</>;
  const event = moment === null ? 'the end of the step' : `event ${count(moment - 1)}`;
  const isShown = key(place) === `${shown.file}.${shown.device}` && moment !== null;
  return (
    <>
      {isShown ? (
        <button type="button" class="link-button" onClick={() => chooseMoment(moment)}>
          {event}
        </button>
      ) : (
        event
      )}
      , after {counted(shared, 'equal change')}: {change} instead of {otherChange}
    </>
  );
}

function Plot({ outlines, colors, titles, width, height, common, over }: Drawn) {
  const [from, to] = common;
  const [hover, setHover] = useState<{ x: number; clientX: number; clientY: number } | null>(null);
  const tall = Math.max(height - TOP - BOTTOM, 1);
  const high = highOf(outlines);
  const y = (n: number) => (1 - n / high) * tall;
  const x = (at: number) => ((at - from) / (to - from)) * width;
  const ticks = ticksOf({ over, common, width });
  const name = (at: number) => (over === 'time' ? duration(Math.abs(at)) : `${count(Math.abs(Math.round(at)))} events`);
  const place = (at: number) => (Math.round(at) === 0 ? 'at the aligned event' : `${name(at)} ${at < 0 ? 'before' : 'after'} it`);
  const move = (e: MouseEvent) => {
    const { left } = (e.currentTarget as Element).getBoundingClientRect();
    const at = e.clientX - left - LEFT;
    setHover(at >= 0 && at < width ? { x: Math.floor(at), clientX: e.clientX, clientY: e.clientY } : null);
  };
  return (
    <>
      <svg
        width={width + LEFT + RIGHT}
        height={height}
        role="img"
        aria-label={`Allocated bytes of ${listed(titles)}, up to ${bytes(high)}; the table below has their figures`}
        onMouseMove={move}
        onMouseLeave={() => setHover(null)}
      >
        <g transform={`translate(${LEFT} ${TOP})`}>
          {byteTicks(0, high, tall / 34).map((tick) => (
            <g key={tick.at}>
              <line class="steps-grid" x1={0} x2={width} y1={y(tick.at)} y2={y(tick.at)} />
              <text x={-8} y={y(tick.at)} text-anchor="end" dominant-baseline="middle">
                {tick.label}
              </text>
            </g>
          ))}
          {ticks.map((tick) => (
            <text key={tick.at} x={Math.min(x(tick.at), width - 16)} y={tall + 16} text-anchor="middle">
              {tick.label}
            </text>
          ))}
          <line class="steps-axis" x1={0} x2={width} y1={tall} y2={tall} />
          <line class="steps-zero" x1={x(0)} x2={x(0)} y1={0} y2={tall} />
          {outlines.map((outline, i) => outline && <path key={i} class="steps-line" d={pathOf(outline, y)} stroke={colors[i]} />)}
          {hover && <line class="steps-zero" x1={hover.x} x2={hover.x} y1={0} y2={tall} />}
        </g>
      </svg>
      {hover && (
        <Tooltip x={hover.clientX} y={hover.clientY}>
          <p class="tooltip-title">{place(from + ((hover.x + 0.5) / width) * (to - from))}</p>
          <dl class="facts">
            {outlines.map((outline, i) => {
              const value = outline?.values[hover.x - outline.left];
              return (
                <div key={i}>
                  <dt>
                    <span class="steps-key" style={{ background: colors[i]! }} />
                    {titles[i]}
                  </dt>
                  <dd>{value === undefined || Number.isNaN(value) ? '–' : bytes(value)}</dd>
                </div>
              );
            })}
          </dl>
        </Tooltip>
      )}
    </>
  );
}
