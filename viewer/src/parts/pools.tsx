// The pools of a device: buttons with their reserved bytes over time, and the chosen pool's contents by line.

import { useMemo, useState } from 'preact/hooks';
import { NONE, type Device, type PoolCourse, type Segments } from '../source/source';
import { pool } from '../state/pools';
import { source } from '../state/recordings';
import { bytes, share } from '../text/units';
import { useAnswer } from './answer';
import { bytesColumn, countColumn, textColumn, type Column } from './columns';
import { Segmented, Waiting } from './controls';
import { momentText, type Current } from './current';
import { groupsOf, type Group } from './holders';
import { Sentence } from './sentence';
import { Sparkline } from './sparkline';
import { StackTrace } from './stack-trace';
import { Table } from './table';

const isPrivate = ({ pool }: PoolCourse) => pool !== null && (pool[0] !== 0 || pool[1] !== 0);

/** Returns the pools to show; none if there is only the default pool. */
export const poolsToShow = (segments: Segments | null): readonly PoolCourse[] =>
  segments?.courses.some(isPrivate) ? segments.courses.filter(({ pool }) => pool !== null) : [];

const same = (a: readonly number[] | null, b: readonly number[] | null) => a !== null && b !== null && a.join() === b.join();

/** Returns the reserved bytes over time of the chosen pool. */
export const chosenPool = (segments: Segments | null) => segments?.courses.find((one) => same(one.pool, pool.value)) ?? null;

/** One button per pool, with its reserved bytes over time; a click shows its contents. */
export function PoolButtons({ pools, recording }: { pools: readonly PoolCourse[]; recording: Device }) {
  const high = Math.max(...pools.map((one) => one.peak_reserved), 1);
  return (
    <ul class="pool-list" aria-label="Pools">
      {pools.map((one) => (
        <li key={one.name}>
          <button
            type="button"
            class="pool-button"
            aria-pressed={same(one.pool, pool.value)}
            title={one.kind?.replaceAll('`', '') ?? one.name}
            onClick={() => (pool.value = same(one.pool, pool.value) ? null : one.pool)}
          >
            <span class="pool-name">{one.name}</span>
            <Sparkline points={one.points} end={recording.events} high={high} />
            <span class="quiet">at most {bytes(one.peak_reserved)} reserved</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

const AT_CHOICES = [
  { value: 'moment', label: 'the shown moment' },
  { value: 'highest', label: 'its peak' },
] as const;
type At = (typeof AT_CHOICES)[number]['value'];

interface PoolContentsProps {
  shown: Current;
  course: PoolCourse;
  /** The moment that all views show. */
  moment: number;
  /** Whether to start with that moment, or with the moment at which reserved bytes peak. */
  at: At;
}

/** The contents of a pool by line, at the shown moment or where its reserved bytes peak. */
export function PoolContents({ shown, course, moment, at: first }: PoolContentsProps) {
  const { file, device, scope, recording } = shown;
  const [at, setAt] = useState<At>(first);
  const [chosen, choose] = useState<string | null>(null);
  const asked = at === 'moment' ? moment : course.fullest_moment;
  const answer = useAnswer(scope, `${course.name} ${asked}`, (unwanted) =>
    source.ask(file, device, { question: 'pool', pool: course.pool, moment: asked, by: 'line' }, unwanted),
  );
  const held = answer.value;
  const rows = useMemo(() => (held ? groupsOf(held.holders) : []), [held]);
  const columns = useMemo(() => columnsOf(held?.allocated ?? 0), [held]);
  const row = rows.find((one) => one.key === chosen) ?? rows[0];
  return (
    <section class="pool-contents" aria-label={`Contents of ${course.name}`} aria-busy={answer.pending} data-pool={course.name}>
      <header>
        <h3>
          {course.name}
          <button type="button" class="link-button" onClick={() => (pool.value = null)}>
            Close
          </button>
        </h3>
        {held && (
          <p>
            {bytes(held.allocated)} allocated of {bytes(held.reserved)} reserved {momentText(held.holders.now.moment, recording)}
          </p>
        )}
        {course.kind && (
          <p class="quiet">
            <Sentence text={`${course.kind.charAt(0).toUpperCase()}${course.kind.slice(1)}.`} />
          </p>
        )}
        {recording.events > 0 && <Segmented label="At" choices={AT_CHOICES} value={at} choose={setAt} />}
      </header>
      {held ? (
        <Table
          name="pool"
          caption={`Allocated in ${course.name} by line`}
          columns={columns}
          rows={rows}
          rowKey={(one) => one.key}
          sortBy="allocated_bytes"
          chosen={chosen}
          choose={(one) => choose(one.key)}
          empty="No allocations at that moment"
        />
      ) : (
        <Waiting error={answer.error} what="Reading the pool's contents." />
      )}
      {row && chosen !== null && <StackTrace file={file} stack={row.stack} heading="Stack that holds the most" />}
      {course.stack !== NONE && <StackTrace file={file} stack={course.stack} heading="Stack that reserved its first memory" />}
    </section>
  );
}

const columnsOf = (total: number): Column<Group>[] => [
  textColumn('line', 'Line', (one) => one.label, true),
  bytesColumn('allocated_bytes', 'Allocated', (one) => one.bytes, total),
  {
    ...bytesColumn<Group>('share_percent', 'Share', (one) => one.bytes),
    value: (one) => (total === 0 ? null : (one.bytes * 100) / total),
    text: (one) => share(one.bytes, total),
  },
  countColumn('blocks', 'Blocks', (one) => one.count),
];
