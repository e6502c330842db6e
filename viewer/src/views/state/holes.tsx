// Free memory at a moment: the last request beside the largest hole, the lines that keep holes apart, and the holes.

import { useMemo } from 'preact/hooks';
import { poolName, streamName } from '../../names/tags';
import { entryAt, numberAt } from '../../numbers/at';
import { blockTitles, type BlockTitles } from './blocks';
import { addressColumn, bytesColumn, textColumn, type Column } from '../../parts/columns';
import { Sentence } from '../../parts/sentence';
import { Split } from '../../parts/split';
import { Table } from '../../parts/table';
import type { Asked, Holes, Layout, Names, Tables } from '../../source/source';
import { hole } from '../../state/hole';
import { search } from '../../state/search';
import { bytes, count } from '../../text/units';

export interface HolesProps {
  holes: Holes;
  layout: Layout;
  tables: Tables;
  names: Names | null;
}

/** Returns the position of the shown hole: the chosen one, or else the largest that a failed request could have used. */
export function shownHole({ address, asked }: Holes): number | null {
  const chosen = hole.value === null ? -1 : address.indexOf(hole.value);
  if (chosen >= 0) return chosen;
  return asked?.failed ? asked.largest : null;
}

export function FreeMemory({ holes, layout, tables, names }: HolesProps) {
  return (
    <section class="holes" aria-label="Free memory" data-holes={holes.count}>
      <Split
        name="hole-table"
        pane="request beside the holes"
        panes="beside"
        sized="first"
        initial="clamp(200px, 40%, 420px)"
        least={160}
        first={
          <div class="holes-told" role="region" aria-label="The request and the holes" tabIndex={0}>
            <h3>
              {bytes(holes.total)} free in {count(holes.count)} {holes.count === 1 ? 'hole' : 'holes'}
            </h3>
            {holes.asked && <Compared asked={holes.asked} holes={holes} />}
            <Pins holes={holes} />
          </div>
        }
        second={<HoleTable holes={holes} layout={layout} tables={tables} names={names} />}
      />
    </section>
  );
}

/** The request to scale, beside the largest hole that it could have used and the device's free memory. */
function Compared({ asked, holes }: { asked: Asked; holes: Holes }) {
  const largest = asked.largest === null ? 0 : numberAt(holes.bytes, asked.largest);
  const rows: [name: string, bytes: number, kind: string][] = [
    [asked.failed ? 'requested, failed' : 'requested, served', asked.bytes, asked.failed ? 'failed' : 'served'],
    [asked.failed ? 'largest hole for it' : 'largest hole left', largest, 'hole'],
  ];
  if (asked.device_free !== null) rows.push(['free on the device', asked.device_free, 'device']);
  const most = Math.max(...rows.map(([, size]) => size), 1);
  return (
    <dl class="to-scale" aria-label={`Request of event ${count(asked.event)}, to scale`}>
      {rows.map(([name, size, kind]) => (
        <div key={kind} data-kind={kind} data-bytes={size}>
          <dt>{name}</dt>
          <dd title={`${count(size)} bytes`}>
            <span class="to-scale-bar">
              <span class={`to-scale-${kind}`} style={{ width: `${(size / most) * 100}%` }} />
            </span>
            <span class="to-scale-bytes">{bytes(size)}</span>
            {kind === 'hole' && asked.largest !== null && (
              <button type="button" class="link-button" onClick={() => (hole.value = numberAt(holes.address, asked.largest!))}>
                Show hole
              </button>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The number of lines listed at first. */
const FIRST_PINS = 5;

function Pins({ holes }: { holes: Holes }) {
  if (holes.pins.length === 0) return null;
  const more = holes.pins.length - FIRST_PINS + holes.more_pins;
  return (
    <>
      <p>
        <Sentence text={holes.pinned} />
      </p>
      <ol class="pins" aria-label="Lines that pin free memory">
        {holes.pins.slice(0, FIRST_PINS).map((pin) => (
          <li key={`${pin.line} ${pin.stack}`} data-bytes={pin.bytes}>
            <Sentence text={pin.told} />{' '}
            <button
              type="button"
              class="link-button"
              aria-label={`Find ${pin.line}`}
              onClick={() => (search.value = placeIn(pin.line))}
            >
              Find
            </button>
          </li>
        ))}
      </ol>
      {more > 0 && <p class="quiet">{count(more)} more lines pin less.</p>}
    </>
  );
}

/** Returns the search for a line: `train.py:31`, or the whole text for a function without a file. */
const placeIn = (line: string) => {
  const [place] = /\S+:\d+/.exec(line) ?? [];
  return place ?? `"${line}"`;
};

function HoleTable({ holes, layout, tables, names }: HolesProps) {
  const rows = useMemo(() => [...holes.address.keys()], [holes]);
  const titles = useMemo(() => blockTitles(layout, names), [layout, names]);
  const columns = useMemo(() => columnsOf(holes, tables, titles), [holes, tables, titles]);
  const chosen = shownHole(holes);
  return (
    <Table
      name={`holes-${holes.moment}`}
      caption="Holes"
      columns={columns}
      rows={rows}
      rowKey={(i) => i}
      chosen={chosen}
      choose={(i) => (hole.value = numberAt(holes.address, i))}
    />
  );
}

function columnsOf(holes: Holes, tables: Tables, title: BlockTitles): Column<number>[] {
  const tag = (i: number) => tables.tags[numberAt(holes.tags, i)];
  const why = (i: number) =>
    holes.whole[i] ? 'a whole segment' : (holes.reasons[numberAt(holes.why, i)] ?? (holes.asked ? 'could serve it' : ''));
  return [
    bytesColumn('free_bytes', 'Free', (i) => numberAt(holes.bytes, i), entryAt([...holes.bytes.slice(0, 1), 1], 0)),
    textColumn('why', 'For the request', why),
    textColumn('before', 'Before it', (i) => title(numberAt(holes.before, i)), true),
    textColumn('after', 'After it', (i) => title(numberAt(holes.after, i)), true),
    addressColumn('address', 'Address', (i) => numberAt(holes.address, i)),
    textColumn('pool', 'Pool', (i) => poolName(tag(i)?.pool ?? null)),
    textColumn('stream', 'Stream', (i) => streamName(tag(i)?.stream ?? 0)),
  ];
}
