// The ranges reserved from the device, over time and as a table, and the peaks of each pool.

import { useMemo, useState } from 'preact/hooks';
import { ownLabel } from '../../names/stacks';
import { kindText, poolName, streamName } from '../../names/tags';
import { numberAt } from '../../numbers/at';
import { useAnswer } from '../../parts/answer';
import { addressColumn, bytesColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Empty, Waiting } from '../../parts/controls';
import { useCurrent, type Current } from '../../parts/current';
import { PoolButtons, PoolContents, chosenPool, poolsToShow } from '../../parts/pools';
import { Split } from '../../parts/split';
import { StackTrace } from '../../parts/stack-trace';
import { Table } from '../../parts/table';
import { SegmentTimeline } from './segment-timeline';
import { NONE, type Names, type Segments, type Tags } from '../../source/source';
import { shownMoment } from '../../state/moment';
import { segmentsOf } from '../../state/pools';

export function View() {
  const shown = useCurrent();
  if (!shown) return null;
  return <Ranges key={shown.scope} {...shown} />;
}

function Ranges(shown: Current) {
  const { file, device, recording, names, scope } = shown;
  const [chosen, choose] = useState<number | null>(null);
  const answer = useAnswer(scope, scope, (unwanted) => segmentsOf(file, device, unwanted));
  const segments = answer.value;
  if (!segments) return <Waiting error={answer.error} what="Reading the reserved ranges." />;
  if (segments.address.length === 0) {
    return (
      <Empty title="No segments were recorded.">
        <p>The recording has no data about memory reserved from the device.</p>
      </Empty>
    );
  }
  const pools = poolsToShow(segments);
  const course = chosenPool(segments);
  return (
    <div class="panel segments-view" data-segments={segments.address.length}>
      <h2 class="visually-hidden">Segments</h2>
      {pools.length > 0 && <PoolButtons pools={pools} recording={recording} />}
      <Split
        name="ranges"
        pane="tables"
        panes="above"
        sized="second"
        initial="50%"
        first={<SegmentTimeline segments={segments} tags={recording.tags} chosen={chosen} choose={choose} />}
        second={
          <Split
            name="pools"
            pane="pools"
            panes="beside"
            sized="second"
            initial="min(440px, 45%)"
            first={<SegmentTable segments={segments} tags={recording.tags} names={names} chosen={chosen} choose={choose} />}
            second={
              <div class="segments-side">
                {course && (
                  <PoolContents key={course.name} shown={shown} course={course} moment={shownMoment.value} at="highest" />
                )}
                <PoolTable segments={segments} />
                {chosen !== null && (
                  <StackTrace
                    file={file}
                    stack={numberAt(segments.stack, chosen)}
                    heading="Stack that reserved the chosen range"
                  />
                )}
              </div>
            }
          />
        }
      />
    </div>
  );
}

function segmentColumns(s: Segments, tags: readonly Tags[], names: Names | null): Column<number>[] {
  const tag = (i: number) => tags[numberAt(s.tags, i)];
  return [
    addressColumn('address', 'Address', (i) => numberAt(s.address, i)),
    bytesColumn('reserved_bytes', 'Reserved', (i) => numberAt(s.bytes, i)),
    textColumn('stream', 'Stream', (i) => streamName(tag(i)?.stream ?? 0)),
    textColumn('pool', 'Pool', (i) => poolName(tag(i)?.pool ?? null)),
    textColumn('kind', 'Kind', (i) => kindText(s, i)),
    countColumn('from_moment', 'From moment', (i) => numberAt(s.from, i)),
    countColumn('to_moment', 'To moment', (i) => (s.to[i] === NONE ? null : numberAt(s.to, i))),
    textColumn('stack', 'Reserved by', (i) => ownLabel(names, numberAt(s.stack, i)), true),
  ];
}

interface SegmentTableProps {
  segments: Segments;
  tags: readonly Tags[];
  names: Names | null;
  chosen: number | null;
  choose: (segment: number) => void;
}

function SegmentTable({ segments: s, tags, names, chosen, choose }: SegmentTableProps) {
  const rows = useMemo(() => [...s.address.keys()], [s]);
  const columns = useMemo(() => segmentColumns(s, tags, names), [s, tags, names]);
  return (
    <Table
      name="segments"
      caption="Reserved ranges"
      columns={columns}
      rows={rows}
      rowKey={(i) => i}
      chosen={chosen}
      choose={choose}
    />
  );
}

const POOL_COLUMNS: Column<Segments['pools'][number]>[] = [
  textColumn('pool', 'Pool', (p) => poolName(p.pool)),
  textColumn('stream', 'Stream', (p) => streamName(p.stream)),
  bytesColumn('peak_reserved_bytes', 'Peak reserved', (p) => p.peak_reserved),
  bytesColumn('peak_active_bytes', 'Peak active', (p) => p.peak_active),
];

function PoolTable({ segments }: { segments: Segments }) {
  return (
    <Table
      name="pools"
      caption="Peaks of pools"
      columns={POOL_COLUMNS}
      rows={segments.pools}
      rowKey={(p) => `${p.pool?.join('.') ?? ''} ${p.stream}`}
      sortBy="peak_reserved_bytes"
    />
  );
}
