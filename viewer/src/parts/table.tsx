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
  /** The rows as a tree: callers precede their calls. A tree keeps its order. */
  tree?: {
    /** The level of a row, from 1. */
    level: (row: R) => number;
    /** Whether the rows below it are shown; null if there are none. */
    isOpen: (row: R) => boolean | null;
    toggle: (row: R) => void;
    /** Handles a key of a row; `place` is the row's position in the window. Returns whether it did. */
    keys: (e: KeyboardEvent, row: R, place: () => { x: number; y: number }) => boolean;
    /** Opens the menu of a row. */
    menu: (row: R, x: number, y: number) => void;
  };
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
  /** Returns the row to which an arrow leads from an open or a closed row of a tree; null for other keys and in other tables. */
  const treeStep = (key: string, from: number): number | null => {
    const { tree } = p;
    if (!tree) return null;
    const level = tree.level(entryAt(rows, from));
    if (key === 'ArrowRight') return tree.isOpen(entryAt(rows, from)) ? from + 1 : from;
    if (key !== 'ArrowLeft') return null;
    const caller = rows.slice(0, from).findLastIndex((row) => tree.level(row) < level);
    return caller < 0 ? from : caller;
  };
  const keys = (e: KeyboardEvent) => {
    if (!(e.target instanceof HTMLTableRowElement)) return;
    const from = Number(e.target.dataset.row);
    const row = entryAt(rows, from);
    if (p.enter && e.key === 'Enter') p.enter(row);
    const { left, bottom } = e.target.getBoundingClientRect();
    if (p.tree?.keys(e, row, () => ({ x: left + 24, y: bottom }))) {
      e.preventDefault();
      e.stopPropagation();
      return;
    }
    const isOpen = p.tree?.isOpen(row);
    if (p.tree && (e.key === 'ArrowRight' || e.key === 'ArrowLeft') && isOpen === (e.key === 'ArrowLeft')) {
      e.preventDefault();
      e.stopPropagation();
      p.tree.toggle(row);
      return;
    }
    const to = treeStep(e.key, from) ?? stepOf(e.key, from, rows.length, 10);
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
      {...(p.tree ? { 'aria-level': p.tree.level(row) } : {})}
      {...(p.tree && p.tree.isOpen(row) !== null ? { 'aria-expanded': p.tree.isOpen(row) ?? false } : {})}
      onContextMenu={(e) => {
        if (!p.tree) return;
        e.preventDefault();
        p.tree.menu(row, e.clientX, e.clientY);
      }}
      onClick={() => {
        go(at);
        p.enter?.(row);
      }}
    >
      {p.columns.map((c, i) => (
        <td key={c.key} class={`${c.numeric ? 'numeric' : ''} ${c.wide ? 'wide' : ''}`} title={c.exact(row)}>
          {c.bar && <span class="cell-bar" style={{ width: `${Math.min(c.bar(row), 1) * 100}%` }} />}
          {i === 0 && p.tree && <Twisty tree={p.tree} row={row} />}
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
        <table role={p.tree ? 'treegrid' : 'grid'} aria-label={p.caption} aria-rowcount={rows.length + 1} onKeyDown={keys}>
          <thead>
            <tr aria-rowindex={1}>
              {p.columns.map((c) => (
                <th
                  key={c.key}
                  scope="col"
                  class={`${c.numeric ? 'numeric' : ''} ${c.wide ? 'wide' : ''}`}
                  aria-sort={sort?.key === c.key ? (sort.descending ? 'descending' : 'ascending') : 'none'}
                >
                  <button type="button" title={c.hint} disabled={p.tree !== undefined} onClick={() => sortWith(c)}>
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

/** The indentation of a row of a tree, and the mark that opens and closes it. */
function Twisty<R>({ tree, row }: { tree: NonNullable<TableProps<R>['tree']>; row: R }) {
  const isOpen = tree.isOpen(row);
  return (
    <span
      class="twisty"
      aria-hidden="true"
      // A very deep tree keeps its texts in sight.
      style={{ paddingLeft: `${Math.min(tree.level(row) - 1, 40) * 12}px` }}
      onClick={(e) => {
        if (isOpen === null) return;
        e.stopPropagation();
        tree.toggle(row);
      }}
    >
      {isOpen === null ? '' : isOpen ? '▾' : '▸'}
    </span>
  );
}

function Gap({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr class="table-gap" aria-hidden="true" style={{ height: `${rows * ROW_HEIGHT}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}
