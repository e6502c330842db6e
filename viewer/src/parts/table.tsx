import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { entryAt } from '../numbers/at';
import { sheetItems } from '../save/files';
import { SaveMenu } from '../save/menu';
import { count } from '../text/units';
import { sorted, type Column } from './columns';
import { Label } from './label';
import { bringIntoSight, useSize } from './size';
import { rowsKept, rowsSeen, stepOf } from './virtual';

const ROW_HEIGHT = 24;
/** Longer tables have only the rows in view in the document. */
const LONG = 200;

export interface TableProps<R> {
  /** Part of the name of saved files. */
  name: string;
  caption: string;
  /** A new list sorts the rows again: keep the list if there may be many rows. */
  columns: readonly Column<R>[];
  rows: readonly R[];
  rowKey: (row: R) => string | number;
  /** The key of the initial sort column, descending; by default rows keep their order. */
  sortBy?: string;
  chosen?: string | number | null;
  choose?: (row: R) => void;
  /** Called when a row is clicked, or Enter is pressed, in addition to choosing it. */
  enter?: (row: R) => void;
  marked?: (row: R) => boolean;
  /** Shown if there are no rows. */
  empty?: string;
  /** Controls beside the caption. */
  children?: ComponentChildren;
}

/** A sortable table that can be saved; arrow keys move between rows and choose. */
export function Table<R>(p: TableProps<R>) {
  const [sort, setSort] = useState<{ key: string; descending: boolean } | null>(
    p.sortBy ? { key: p.sortBy, descending: true } : null,
  );
  const column = sort && p.columns.find((c) => c.key === sort.key);
  const rows = useMemo(() => (column ? sorted(p.rows, column, sort.descending) : p.rows), [p.rows, column, sort?.descending]);

  const [box, size] = useSize<HTMLDivElement>();
  const [scrollTop, setScrollTop] = useState(0);
  const long = rows.length > LONG;
  const viewport = Math.max(size.height - ROW_HEIGHT, 0);
  const { first, last } = long
    ? rowsSeen({ count: rows.length, rowHeight: ROW_HEIGHT, viewport }, scrollTop, 10)
    : { first: 0, last: rows.length };

  const chosenAt = p.chosen == null ? -1 : rows.findIndex((r) => p.rowKey(r) === p.chosen);
  const [focusAt, setFocusAt] = useState(0);
  const tabAt = Math.min(chosenAt >= 0 ? chosenAt : focusAt, rows.length - 1);
  const wantsFocus = useRef<number | null>(null);

  // The table's head covers the height of one row.
  const show = (row: number) => bringIntoSight(box.current, row * ROW_HEIGHT, (row + 1) * ROW_HEIGHT, ROW_HEIGHT);

  useLayoutEffect(() => {
    const wanted = wantsFocus.current;
    const row = wanted === null ? null : box.current?.querySelector<HTMLElement>(`tr[data-row="${wanted}"]`);
    if (wanted === null || !row) return;
    wantsFocus.current = null;
    row.focus({ preventScroll: true });
    // The box may have been shorter while rows were replaced, and the browser may have scrolled it back.
    show(wanted);
  });
  useEffect(() => {
    if (chosenAt >= 0) show(chosenAt);
  }, [p.chosen, size.height > 0]);

  const go = (row: number) => {
    setFocusAt(row);
    show(row);
    wantsFocus.current = row;
    const at = rows[row];
    if (at !== undefined) p.choose?.(at);
  };
  const keys = (e: KeyboardEvent) => {
    if (!(e.target instanceof HTMLTableRowElement)) return;
    const from = Number(e.target.dataset.row);
    if (p.enter && e.key === 'Enter') p.enter(entryAt(rows, from));
    const to = stepOf(e.key, from, rows.length, 10);
    if (to === null) return;
    e.preventDefault();
    e.stopPropagation();
    go(to);
  };

  const sortWith = (c: Column<R>) =>
    setSort(sort?.key === c.key ? { key: c.key, descending: !sort.descending } : { key: c.key, descending: c.numeric });

  const items = sheetItems(() => ({
    columns: p.columns.map((c) => c.key),
    rows: rows.map((r) => p.columns.map((c) => c.value(r))),
  }));

  const line = (row: R, at: number) => (
    <tr
      key={p.rowKey(row)}
      data-row={at}
      aria-rowindex={at + 2}
      aria-selected={at === chosenAt}
      tabIndex={at === tabAt ? 0 : -1}
      class={p.marked?.(row) ? 'marked' : ''}
      onClick={() => {
        go(at);
        p.enter?.(row);
      }}
    >
      {p.columns.map((c) => (
        <td key={c.key} class={`${c.numeric ? 'numeric' : ''} ${c.wide ? 'wide' : ''}`} title={c.exact(row)}>
          {c.bar && <span class="cell-bar" style={{ width: `${Math.min(c.bar(row), 1) * 100}%` }} />}
          {c.swatch?.(row) && <span class="legend-color" style={{ background: c.swatch(row)! }} />}
          <span class="cell-text">{c.numeric ? c.text(row) : <Label text={c.text(row)} />}</span>
        </td>
      ))}
    </tr>
  );
  const body = [];
  let end = 0;
  // The row that has the focus, or gets it by Tab, stays in the document at any scroll position.
  for (const at of rowsKept(first, last, tabAt)) {
    if (at > end) body.push(<Gap rows={at - end} columns={p.columns.length} />);
    body.push(line(entryAt(rows, at), at));
    end = at + 1;
  }
  if (end < rows.length) body.push(<Gap rows={rows.length - end} columns={p.columns.length} />);

  return (
    <section class="table-part" aria-label={p.caption}>
      <header class="table-head">
        <h3>{p.caption}</h3>
        <span class="quiet">{count(rows.length)}</span>
        {p.children}
        <span class="spring" />
        {rows.length > 0 && <SaveMenu name={p.name} items={items} />}
      </header>
      <div class="table-box" ref={box} onScroll={(e) => setScrollTop(e.currentTarget.scrollTop)}>
        <table role="grid" aria-label={p.caption} aria-rowcount={rows.length + 1} onKeyDown={keys}>
          <thead>
            <tr aria-rowindex={1}>
              {p.columns.map((c) => (
                <th
                  key={c.key}
                  scope="col"
                  class={`${c.numeric ? 'numeric' : ''} ${c.wide ? 'wide' : ''}`}
                  aria-sort={sort?.key === c.key ? (sort.descending ? 'descending' : 'ascending') : 'none'}
                >
                  <button type="button" title={c.hint} onClick={() => sortWith(c)}>
                    {c.title}
                    <span class="sort-mark" aria-hidden="true">
                      {sort?.key === c.key ? (sort.descending ? '↓' : '↑') : ''}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{body}</tbody>
        </table>
        {rows.length === 0 && <p class="empty">{p.empty ?? 'No rows'}</p>}
      </div>
    </section>
  );
}

function Gap({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr class="table-gap" aria-hidden="true" style={{ height: `${rows * ROW_HEIGHT}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}
