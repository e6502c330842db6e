// All ranks over time: one row each, with colors for bytes.

import { signal, type Signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { Canvas } from '../../parts/canvas';
import { Segmented, type Choice } from '../../parts/controls';
import { useSize } from '../../parts/size';
import { Facts, Tooltip } from '../../parts/tooltip';
import { stepOf } from '../../parts/virtual';
import { SaveMenu } from '../../save/menu';
import { drawingItems } from '../../save/picture';
import type { RankTold, Ranks } from '../../source/source';
import { COUNTERS, ORDERS, counter, openRank, order, type Counter, type Order } from '../../state/ranks';
import { dark, inks } from '../../style/theme';
import { bytes, capital, count, signedBytes } from '../../text/units';
import { drawHeatMap, placeIn, type Place, type Subject } from './draw';
import { bandsOf, bytesAt, highestIn, kindOf, peakOf, ranksIn, rowName, rowsOf } from './rows';

/** A position in the map, and the pointer's position in window pixels. */
interface Pointed {
  row: number;
  cell: number;
  x: number;
  y: number;
}

const choices = <T extends string>(all: readonly T[]): Choice<T>[] => all.map((value) => ({ value, label: capital(value) }));

export function HeatMap({ told, chosen }: { told: Ranks; chosen: Signal<number | null> }) {
  const [box, { width }] = useSize<HTMLDivElement>();
  const [of, by] = [counter.value, order.value];
  const rows = useMemo(() => rowsOf(told, by, of), [told, by, of]);
  const bands = useMemo(() => bandsOf(told), [told]);
  const pointed = useMemo(() => signal<Pointed | null>(null), []);
  const cell = useMemo(() => signal(0), []);
  const subject: Subject = { told, counter: of, rows, bands, dark: dark.value, inks: inks.value };
  const place = placeIn(subject, width);
  // Redrawn when its content changes, not when the pointer moves.
  const picture = useMemo(
    () => width > 0 && <Canvas width={width} height={place.height} draw={(pen) => drawHeatMap(pen, subject, place)} />,
    [told, rows, of, width, subject.dark],
  );

  const rowOf = (rank: number | null) => (rank === null ? 0 : Math.max(Math.floor(rows.ranks.indexOf(rank) / rows.perRow), 0));
  const row = rowOf(chosen.value);
  const ranks = ranksIn(rows, row);
  // The rank of the row that determines the cell's color.
  const rank = highestIn(told, of, ranks, cell.value) ?? ranks[0] ?? 0;

  const pointAt = (e: PointerEvent | MouseEvent): Pointed | null => {
    const at = box.current?.getBoundingClientRect();
    if (!at) return null;
    const [x, y] = [e.clientX - at.left - place.left, e.clientY - at.top - place.top];
    const row = Math.floor(y / place.rowHeight);
    if (x >= place.width || row < 0 || row >= rows.count) return null;
    return { row, cell: Math.max(Math.floor((x / place.width) * told.cells), 0), x: e.clientX, y: e.clientY };
  };
  const keys = (e: KeyboardEvent) => {
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    const to = stepOf(e.key, row, rows.count, 10);
    if (e.key === 'Enter') openRank(rank);
    else if (sideways) cell.value = Math.min(Math.max(cell.value + sideways, 0), told.cells - 1);
    else if (to !== null) chosen.value = ranksIn(rows, to)[0] ?? null;
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    <section class="heat-part" aria-label="All ranks over time">
      <header class="table-head">
        <h3>All ranks over time</h3>
        <Segmented label="Bytes" choices={choices(COUNTERS)} value={of} choose={(to: Counter) => (counter.value = to)} />
        <Segmented label="Order by" choices={choices(ORDERS)} value={by} choose={(to: Order) => (order.value = to)} />
        <span class="spring" />
        <SaveMenu
          name={`ranks-${of}`}
          items={drawingItems(() => ({
            width,
            height: place.height,
            ground: inks.value.ground,
            draw: (pen) => drawHeatMap(pen, subject, place),
          }))}
        />
      </header>
      <p class="quiet">
        The highest {of} bytes in {told.cells} equal parts of each recording; the scale ends at {told.scales[of].told} (
        {bytes(told.scales[of].bytes)}).
        {rows.perRow > 1 && ` ${count(rows.perRow)} ranks share a row: the highest counts.`}
        {told.ranks.some((one) => one.failed_bytes !== null) && ' A cross: the rank ran out of memory.'}
        {told.read < told.ranks.length && ' Hatched: the recording could not be read.'}
      </p>
      <div
        ref={box}
        class="heat-map"
        role="slider"
        tabIndex={0}
        aria-orientation="vertical"
        aria-label="Ranks: up and down walk, left and right move in time, Enter opens"
        aria-valuemin={1}
        aria-valuemax={rows.count}
        aria-valuenow={row + 1}
        aria-valuetext={`${rowName(told, ranks)}: ${factsOf(told, rank, of, cell.value)
          .map((fact) => fact.join(' '))
          .join(', ')}`}
        data-rows={rows.count}
        data-top={place.top}
        data-row-height={place.rowHeight}
        data-order={rows.ranks.slice(0, 64).join(' ')}
        onPointerMove={(e) => (pointed.value = pointAt(e))}
        onPointerLeave={() => (pointed.value = null)}
        onKeyDown={keys}
        onClick={(e) => {
          const at = pointAt(e);
          if (!at) return;
          const those = ranksIn(rows, at.row);
          openRank(highestIn(told, of, those, at.cell) ?? those[0] ?? 0);
        }}
      >
        {picture}
        <span
          class="heat-cursor"
          style={{
            left: `${place.left + (cell.value / told.cells) * place.width}px`,
            top: `${place.top + row * place.rowHeight}px`,
            width: `${Math.max(place.width / told.cells, 4)}px`,
            height: `${Math.max(place.rowHeight, 4)}px`,
          }}
        />
        <Under pointed={pointed} told={told} of={of} place={place} ranksAt={(row) => ranksIn(rows, row)} />
      </div>
      <Kinds told={told} />
    </section>
  );
}

type Fact = readonly [name: string, value: string];

function factsOf(told: Ranks, at: number, of: Counter, cell: number): Fact[] {
  const rank = told.ranks[at];
  if (!rank) return [];
  if (rank.unread_because !== null) return [...whereOf(told, rank), ['not read', rank.unread_because]];
  const facts: Fact[] = [
    ...whereOf(told, rank),
    ['kind', kindOf(rank) ?? ''],
    [`${of} here`, bytes(bytesAt(told, of, at, cell))],
    ['peak', bytes(peakOf(rank, of) ?? 0)],
  ];
  if (rank.against_usual_bytes !== null) facts.push(['against usual', signedBytes(rank.against_usual_bytes)]);
  if (rank.failed_bytes !== null) facts.push(['out of memory', `requested ${bytes(rank.failed_bytes)}`]);
  if (rank.leak !== null) facts.push(['leak', rank.leak]);
  return facts;
}

const whereOf = (told: Ranks, { host, groups }: RankTold): Fact[] => [
  ...(host === null ? [] : [['host', host] as const]),
  ...told.groups.flatMap((name) => (groups[name] === undefined ? [] : [[name, String(groups[name])] as const])),
];

interface UnderProps {
  pointed: Signal<Pointed | null>;
  told: Ranks;
  of: Counter;
  place: Place;
  ranksAt: (row: number) => number[];
}

/** The tooltip for the cell under the pointer. */
function Under({ pointed, told, of, place, ranksAt }: UnderProps) {
  const at = pointed.value;
  if (!at) return null;
  const ranks = ranksAt(at.row);
  const rank = highestIn(told, of, ranks, at.cell) ?? ranks[0] ?? 0;
  return (
    <>
      <span
        class="heat-row"
        style={{
          top: `${place.top + at.row * place.rowHeight}px`,
          height: `${place.rowHeight}px`,
          left: `${place.left}px`,
          width: `${place.width}px`,
        }}
      />
      <Tooltip x={at.x} y={at.y}>
        <p class="tooltip-title">{capital(`rank ${told.ranks[rank]?.rank}`)}</p>
        {ranks.length > 1 && <p class="quiet">The highest of {rowName(told, ranks)}</p>}
        <Facts facts={factsOf(told, rank, of, at.cell)} />
      </Tooltip>
    </>
  );
}

/** The most kinds listed below the map; the table has all. */
const MOST_KINDS = 12;

function Kinds({ told: { kinds } }: { told: Ranks }) {
  if (kinds.length === 0) return null;
  return (
    <ul class="map-legend rank-kinds" aria-label="Kinds">
      {kinds.slice(0, MOST_KINDS).map((kind, at) => (
        <li key={at} data-usual={kind.is_usual}>
          <b>kind {at + 1}</b> {count(kind.ranks)} {kind.ranks === 1 ? 'rank' : 'ranks'}, peak {bytes(kind.peak_bytes)}
          {!kind.is_usual && ', unlike the others'}
        </li>
      ))}
      {kinds.length > MOST_KINDS && <li>{count(kinds.length - MOST_KINDS)} more kinds</li>}
    </ul>
  );
}
