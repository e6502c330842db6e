// Changes to parts of the program, such as activation checkpointing of a module, and the peak that the changed program would have.

import { Chip } from '../../parts/chip';
import { useState } from 'preact/hooks';
import { useAnswer } from '../../parts/answer';
import { Button, Select } from '../../parts/controls';
import type { Current } from '../../parts/current';
import type { KnownGpu, MarkedProgram } from '../../source/source';
import { source } from '../../state/recordings';
import { NO_MARKS, marks } from '../../state/replay';
import { bytes, count, signedBytes } from '../../text/units';
import { CopyLine } from './copy-line';
import { GROUPS, changesOf, partsOf, type Group } from './marks';

/** The form, the chosen changes, and their estimate. Open while there is a change. */
export function Changes(current: Current) {
  const { file, device, scope } = current;
  const chosen = marks.value;
  const answer = useAnswer(
    scope,
    chosen.join(';'),
    chosen.length === 0 ? null : (unwanted) => source.ask(file, device, { question: 'marked', marks: [...chosen] }, unwanted),
  );
  const [open, setOpen] = useState(chosen.length > 0);
  const isBusy = chosen.length > 0 && !answer.error && answer.pending;
  return (
    <details class="program-changes" open={open} onToggle={(e) => setOpen(e.currentTarget.open)} aria-busy={isBusy}>
      <summary>Changes to the program</summary>
      {open && <Form {...current} />}
      <Chosen />
      {chosen.length === 0 ? null : answer.error ? (
        <p role="alert">{answer.error}</p>
      ) : answer.value ? (
        <Estimate of={answer.value} />
      ) : (
        <p role="status">Estimating the changed program.</p>
      )}
    </details>
  );
}

function Form({ file, device, scope, recording }: Current) {
  const [by, setBy] = useState<Group>('category');
  const [chosenPart, setPart] = useState<string | null>(null);
  const [chosenChange, setChange] = useState<string | null>(null);
  const { moment } = recording.peaks.allocated;
  const ask = (group: Exclude<Group, 'batch'>) => (unwanted: AbortSignal) => {
    const question = { question: 'live', moment, by: group, calls: 'own', inverted: false, before: null } as const;
    return source.ask(file, device, { ...question, search: null, only_found: false, zoom: [], transforms: [] }, unwanted);
  };
  const live = useAnswer(scope, by, by === 'batch' ? null : ask(by));
  const { holders } = (live.pending ? null : live.value) ?? { holders: null };
  const parts = by === 'batch' || !holders ? [] : partsOf(by, holders.label, holders.now.bytes);
  const part = by === 'batch' ? 'batch' : ((parts.find(({ value }) => value === chosenPart) ?? parts[0])?.value ?? null);
  const changes = changesOf(by, part);
  const change = (changes.find(({ value }) => value === chosenChange) ?? changes[0]!).value;
  const add = () => {
    const mark = `${part}=${change}`;
    if (!marks.value.includes(mark)) marks.value = [...marks.value, mark];
  };
  return (
    <form class="whatif-form" aria-label="Change to the program" onSubmit={(e) => e.preventDefault()}>
      <Select label="Change" choices={GROUPS} value={by} choose={setBy} />
      {by !== 'batch' && (
        <Select label="Part, with its bytes at the peak" choices={parts} value={part ?? ''} choose={(value) => setPart(value)} />
      )}
      <Select label="How" choices={changes} value={change} choose={(value) => setChange(value)} />
      <Button onClick={add} disabled={part === null}>
        Add change
      </Button>
      {by !== 'batch' && holders && parts.length === 0 && (
        <p class="field-kept">The recording has no {by} for the memory at the peak.</p>
      )}
    </form>
  );
}

function Chosen() {
  const all = marks.value;
  if (all.length === 0) return null;
  const remove = (mark: string) => {
    const rest = all.filter((one) => one !== mark);
    marks.value = rest.length > 0 ? rest : NO_MARKS;
  };
  return (
    <ul class="program-marks" aria-label="Chosen changes">
      {all.map((mark) => (
        <Chip key={mark} text={mark} onRemove={() => remove(mark)}>
          <code class="transform-text" title={mark}>
            {mark}
          </code>
        </Chip>
      ))}
    </ul>
  );
}

const gpuText = (gpu: KnownGpu | null) => (gpu ? `${gpu.name} (${bytes(gpu.bytes)})` : 'none that is known');

function Estimate({ of }: { of: MarkedProgram }) {
  const unchanged = of.marks.flatMap(({ unchanged }) => unchanged ?? []);
  return (
    <div class="program-estimate" data-peak={of.peak}>
      <table>
        <caption>Estimate</caption>
        <thead>
          <tr>
            <td />
            <th scope="col">Recorded</th>
            <th scope="col">Changed</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">Peak of allocated bytes</th>
            <td title={`${count(of.recorded_peak)} bytes`}>{bytes(of.recorded_peak)}</td>
            <td title={`${count(of.peak)} bytes`}>
              {bytes(of.peak)} ({signedBytes(of.peak - of.recorded_peak)})
            </td>
          </tr>
          <tr>
            <th scope="row">Smallest GPU</th>
            <td>{gpuText(of.recorded_gpu)}</td>
            <td>{gpuText(of.gpu)}</td>
          </tr>
        </tbody>
      </table>
      <div>
        <p>To verify it on a phantom GPU:</p>
        <CopyLine text={of.verify} />
        <p class="quiet">
          {of.marks.map(({ mark, allocations }) => `${mark}: ${count(allocations)} allocations.`).join(' ')} Computed from the
          recorded allocations; the error is not known. Free bytes in PyTorch's cache come on top. The GPU has room for the peak
          and a CUDA context.
        </p>
        {unchanged.map((text) => (
          <p key={text} role="alert">
            {text}
          </p>
        ))}
      </div>
    </div>
  );
}
