import { useMemo, useState } from 'preact/hooks';
import { isInverted } from '../../state/grouping';
import { share } from '../../text/units';
import { Crumbs, type CallTreePart } from './call-part';
import { selfOf, stepsTo, type Node } from '../../parts/calls';
import { bytesColumn, changeColumn, countColumn, textColumn, type Column } from '../../parts/columns';
import { Table } from '../../parts/table';

/** A visible row of the tree. */
interface Row {
  node: Node;
  key: string;
  level: number;
  /** Whether its calls are shown; null if it has none. */
  isOpen: boolean | null;
}

/** Returns the visible rows. A node is open if `chosen` says so; by default, if it is the root or has most of the root's bytes. */
function rowsOf(root: Node, chosen: ReadonlyMap<string, boolean>): Row[] {
  const rows: Row[] = [];
  // An explicit stack, because recursive programs produce trees deeper than the call stack allows.
  const waiting: Row[] = [{ node: root, key: stepsTo(root).join('.'), level: 1, isOpen: null }];
  for (let row = waiting.pop(); row; row = waiting.pop()) {
    const { node, key, level } = row;
    if (node.children.length > 0) row.isOpen = chosen.get(key) ?? (node === root || node.weight * 2 > root.weight);
    rows.push(row);
    if (!row.isOpen) continue;
    const below = node.children.map((child) => ({
      node: child,
      key: key === '' ? String(child.step) : `${key}.${child.step}`,
      level: level + 1,
      isOpen: null,
    }));
    waiting.push(...below.reverse());
  }
  return rows;
}

function columnsOf(root: Node, compared: boolean, inverted: boolean): Column<Row>[] {
  const self = (of: 'bytes' | 'before') => (row: Row) => selfOf(row.node, of, inverted);
  const change = (row: Row) => {
    const [now, before] = [self('bytes')(row), self('before')(row)];
    return now === null || before === null ? null : now - before;
  };
  const call = textColumn<Row>('call', 'Call', ({ node }) => node.label, true);
  if (compared) {
    return [
      call,
      changeColumn('change_bytes', 'Change', ({ node }) => node.bytes - node.before),
      changeColumn('self_change_bytes', 'Self change', change),
      bytesColumn('before_bytes', 'Total before', ({ node }) => node.before),
      bytesColumn('total_bytes', 'Total after', ({ node }) => node.bytes),
      countColumn('blocks', 'Blocks after', ({ node }) => node.count),
    ];
  }
  return [
    call,
    bytesColumn('total_bytes', 'Total', ({ node }) => node.bytes, root.bytes),
    bytesColumn('self_bytes', 'Self', self('bytes'), root.bytes),
    {
      ...countColumn<Row>('share_percent', 'Share', ({ node }) => (root.bytes === 0 ? null : (node.bytes * 100) / root.bytes)),
      text: ({ node }) => share(node.bytes, root.bytes),
    },
    countColumn('blocks', 'Blocks', ({ node }) => node.count),
  ];
}

/** A call tree as a table: total bytes with those of the calls below, self bytes without. Arrows walk, open and close; Enter zooms. */
export function CallTable(p: CallTreePart) {
  const { zoomed, focused, root, compared } = p;
  const [open, setOpen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const inverted = isInverted.value;
  const rows = useMemo(() => rowsOf(zoomed, open), [zoomed, open]);
  const columns = useMemo(() => columnsOf(root, compared, inverted), [root, compared, inverted]);
  const keys = (e: KeyboardEvent, row: Row, place: () => { x: number; y: number }): boolean => {
    if (p.press(e, row.node, place)) return true;
    if (e.key === 'Enter') p.zoom(row.node);
    else if ((e.key === 'Escape' || e.key === 'Backspace') && zoomed.parent) p.zoom(zoomed.parent);
    else return false;
    return true;
  };
  return (
    <Table
      name={`calls-${p.moment}`}
      caption={p.label}
      columns={columns}
      rows={rows}
      rowKey={(row) => row.key}
      chosen={focused ? stepsTo(focused).join('.') : null}
      choose={(row) => p.focus(row.node)}
      marked={(row) => p.searched && row.node.found > 0}
      tree={{
        level: (row) => row.level,
        isOpen: (row) => row.isOpen,
        toggle: (row) => setOpen(new Map(open).set(row.key, !row.isOpen)),
        keys,
        menu: (row, x, y) => p.openMenu(row.node, x, y),
      }}
    >
      <Crumbs {...p} />
      <span class="spring" />
      {p.controls}
    </Table>
  );
}
