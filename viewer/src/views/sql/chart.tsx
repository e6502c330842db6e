// A numeric column of a result as bars, or as a line.

import type { TargetedMouseEvent } from 'preact';
import { useMemo } from 'preact/hooks';
import { Select } from '../../parts/controls';
import type { SqlAnswer, SqlColumn } from '../../source/source';
import { chartLabel, chartValue, type Chart } from './state';
import { bytes, count } from '../../text/units';
import { isBytes, numberIn, rowCount, textIn, uniqueNames, type Row } from './result';

/** The most bars. */
const MOST_BARS = 200;

export interface ChartProps {
  answer: SqlAnswer;
  kind: Exclude<Chart, 'table'>;
  /** Selects a row in the timeline; null: the rows name no place there. */
  choose: ((row: Row) => void) | null;
}

/** A column with its name in the table. */
interface Named {
  name: string;
  column: SqlColumn;
}

/** Returns the value and the label of a chart: the chosen columns, or the last that has numbers and the first that differs from it. */
function chosen(columns: Named[], kind: ChartProps['kind']): { value: Named; label: Named | null } | null {
  const numbers = columns.filter(({ column }) => column.is_number);
  const value =
    numbers.find(({ name }) => name === chartValue.value) ?? numbers.find(({ column }) => isBytes(column)) ?? numbers.at(-1);
  if (!value) return null;
  const labels = (kind === 'line' ? numbers : columns).filter((one) => one !== value);
  const named = labels.find(({ name }) => name === chartLabel.value);
  const usual =
    kind === 'line' ? labels.find(({ name }) => name.endsWith('event')) : labels.find(({ column }) => !column.is_number);
  return { value, label: named ?? usual ?? labels[0] ?? null };
}

export function ResultChart({ answer, kind, choose }: ChartProps) {
  const names = useMemo(() => uniqueNames(answer.columns), [answer]);
  const columns = answer.columns.map((column, at) => ({ name: names[at]!, column }));
  const of = chosen(columns, kind);
  if (!of) return <p class="page-note">A chart needs a column of numbers, and the result has none.</p>;
  const choices = (all: Named[]) => all.map(({ name }) => ({ value: name, label: name }));
  const numbers = columns.filter(({ column }) => column.is_number);
  const labels = kind === 'line' ? numbers : columns;
  return (
    <section class="sql-chart" aria-label="Chart of the result">
      <div class="toolbar">
        <Select label="Value" choices={choices(numbers)} value={of.value.name} choose={(name) => (chartValue.value = name)} />
        {of.label && (
          <Select
            label={kind === 'line' ? 'Axis' : 'Label'}
            choices={choices(labels.filter(({ name }) => name !== of.value.name))}
            value={of.label.name}
            choose={(name) => (chartLabel.value = name)}
          />
        )}
      </div>
      {kind === 'bars' ? (
        <Bars rows={rowCount(answer)} value={of.value.column} label={of.label?.column} choose={choose} />
      ) : (
        <Line rows={rowCount(answer)} value={of.value} label={of.label} choose={choose} />
      )}
    </section>
  );
}

const amount = (column: SqlColumn, n: number) =>
  isBytes(column) ? bytes(n) : n.toLocaleString('en-US', { maximumSignificantDigits: 6 });

interface BarsProps {
  rows: number;
  value: SqlColumn;
  label: SqlColumn | undefined;
  choose: ChartProps['choose'];
}

function Bars({ rows, value, label, choose }: BarsProps) {
  const shown = Math.min(rows, MOST_BARS);
  const all = Array.from({ length: shown }, (_, row) => numberIn(value, row) ?? 0);
  // Negative values have bars of their size, and their sign in the text.
  const most = Math.max(...all.map(Math.abs), Number.MIN_VALUE);
  return (
    <div class="sql-bars">
      <ol>
        {all.map((n, row) => (
          <li key={row}>
            <button type="button" disabled={choose === null} onClick={() => choose?.(row)}>
              <span class="sql-bar-label" title={label && textIn(label, row)}>
                {(label && textIn(label, row)) || '–'}
              </span>
              <span class="sql-bar-track">
                <span class="sql-bar" style={{ width: `${(Math.abs(n) / most) * 100}%` }} />
              </span>
              <span class="numeric">{amount(value, n)}</span>
            </button>
          </li>
        ))}
      </ol>
      {shown < rows && (
        <p class="quiet">
          The first {count(shown)} of {count(rows)} rows.
        </p>
      )}
    </div>
  );
}

/** The size of the drawing's own coordinates. */
const SIDE = 1000;

interface LineProps {
  rows: number;
  value: Named;
  label: Named | null;
  choose: ChartProps['choose'];
}

function Line({ rows, value, label, choose }: LineProps) {
  const points = useMemo(() => {
    const at = (row: Row) => (label ? numberIn(label.column, row) : row);
    const all = Array.from({ length: rows }, (_, row) => [at(row), numberIn(value.column, row), row] as const);
    const known = all.filter((point): point is [number, number, Row] => point[0] !== null && point[1] !== null);
    return known.sort((a, b) => a[0] - b[0]);
  }, [rows, value.column, label?.column]);
  const first = points[0];
  const last = points.at(-1);
  if (!first || !last) return <p class="page-note">No row has both numbers.</p>;
  const values = points.map(([, n]) => n);
  const high = values.reduce((most, n) => Math.max(most, n), 0);
  const low = values.reduce((least, n) => Math.min(least, n), 0);
  const x = (at: number) => ((at - first[0]) / (last[0] - first[0] || 1)) * SIDE;
  const y = (n: number) => SIDE - ((n - low) / (high - low || 1)) * SIDE;
  const path = points.map(([at, n], i) => `${i === 0 ? 'M' : 'L'}${x(at).toFixed(2)} ${y(n).toFixed(2)}`).join('');
  /** Selects the row of the nearest point. */
  const click = ({ offsetX, currentTarget }: TargetedMouseEvent<SVGSVGElement>) => {
    const to = (offsetX / currentTarget.clientWidth) * SIDE;
    const nearest = points.reduce(
      (best, point) => (Math.abs(x(point[0]) - to) < Math.abs(x(best[0]) - to) ? point : best),
      first,
    );
    choose?.(nearest[2]);
  };
  const text = `${value.name} from ${amount(value.column, low)} to ${amount(value.column, high)}, over ${count(points.length)} rows`;
  return (
    <figure class="sql-line">
      <span class="quiet">{amount(value.column, high)}</span>
      <svg
        viewBox={`0 0 ${SIDE} ${SIDE}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={text}
        data-points={points.length}
        onClick={click}
      >
        <path d={path} />
      </svg>
      <span class="quiet">{amount(value.column, low)}</span>
      <figcaption class="quiet">
        <span>{label ? amount(label.column, first[0]) : count(first[0] + 1)}</span>
        <span>{label?.name ?? 'row'}</span>
        <span>{label ? amount(label.column, last[0]) : count(last[0] + 1)}</span>
      </figcaption>
    </figure>
  );
}
