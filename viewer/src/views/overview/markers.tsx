// All marks along the recording, as a table; a row leads to its place.

import { useMemo } from 'preact/hooks';
import { useAnswer } from '../../parts/answer';
import { bytesColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Table } from '../../parts/table';
import { entryAt, numberAt } from '../../numbers/at';
import { MARKERS, type Markers, type Regions } from '../../source/source';
import { chooseMoment } from '../../state/moves';
import { source } from '../../state/recordings';
import { regions, showRegion } from '../../state/regions';
import { showStep } from '../../state/steps';
import { bytes, duration, stepNumber } from '../../text/units';

interface Marker {
  at: number;
  kind: (typeof MARKERS)[number];
  number: number;
  moment: number;
  name: string;
  us: number | null;
  allocated: number;
}

const KINDS: Record<Marker['kind'], string> = { oom: 'out of memory', snapshot: 'snapshot', step: 'step', region: 'region' };

const COLUMNS: Column<Marker>[] = [
  textColumn('kind', 'Kind', ({ kind }) => KINDS[kind]),
  textColumn('name', 'Name', ({ name }) => name, true),
  countColumn('event', 'Event', ({ moment }) => (moment === 0 ? null : moment - 1)),
  { ...countColumn('time_us', 'Time', ({ us }) => us), text: ({ us }) => (us === null ? '–' : duration(us)) },
  bytesColumn('allocated_bytes', 'Allocated there', ({ allocated }) => allocated),
];

function rowsOf(all: Markers, named: Regions | null): Marker[] {
  return Array.from(all.kind, (k, at) => {
    const kind = MARKERS[k] ?? 'snapshot';
    const number = numberAt(all.number, at);
    const us = numberAt(all.time_us, at);
    const name = {
      oom: () => `${bytes(numberAt(all.requested, at))} requested`,
      snapshot: () => '',
      step: () => stepNumber(number),
      region: () => (named ? entryAt(named.names, numberAt(named.name, number)) : ''),
    }[kind]();
    const allocated = numberAt(all.allocated, at);
    return { at, kind, number, moment: numberAt(all.moment, at), name, us: Number.isNaN(us) ? null : us, allocated };
  });
}

function go({ kind, number, moment }: Marker): void {
  if (kind === 'step') showStep(number);
  else if (kind === 'region') showRegion(number);
  else chooseMoment(moment);
}

export function MarkersCard({ file, device, scope }: { file: number; device: number; scope: string }) {
  const { value } = useAnswer(scope, scope, () => source.ask(file, device, { question: 'markers' }));
  const named = regions.value;
  const rows = useMemo(() => (value ? rowsOf(value, named) : []), [value, named]);
  if (rows.length === 0) return null;
  return (
    <section class="card card-table">
      <Table name="markers" caption="Markers" columns={COLUMNS} rows={rows} rowKey={({ at }) => at} choose={go} />
    </section>
  );
}
