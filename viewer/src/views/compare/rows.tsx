import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Column } from '../../parts/columns';
import { mostChanged, type Group } from '../../parts/holders';
import { StackTrace } from '../../parts/stack-trace';
import { Table } from '../../parts/table';
import { NONE } from '../../source/source';
import type { Way } from '../../state/compared';
import type { Side } from './side';

interface RowsProps<G extends Group> {
  a: Side;
  b: Side;
  way: Way;
  name: string;
  caption: string;
  columns: Column<G>[];
  groups: G[];
  /** Allocated bytes over all groups in A and in B. */
  totals: readonly [number, number];
  pending: boolean;
  /** The text about the totals. */
  children: ComponentChildren;
}

/** A table of groups of both, the largest growth first, and the stack of the chosen row: B's if it has one. */
export function Rows<G extends Group>({ a, b, groups, totals, ...p }: RowsProps<G>) {
  const [chosen, setChosen] = useState<string | null>(null);
  const row = groups.find((g) => g.key === chosen) ?? mostChanged(groups);
  const inB = row !== undefined && row.stack !== NONE;
  return (
    <div class="growth" data-a={totals[0]} data-b={totals[1]} data-way={p.way} aria-busy={p.pending}>
      <Table
        name={p.name}
        caption={p.caption}
        columns={p.columns}
        rows={groups}
        rowKey={(g) => g.key}
        sortBy="change_bytes"
        chosen={row?.key ?? null}
        choose={(g) => setChosen(g.key)}
        marked={(g) => g.found}
      >
        <span class="compared">{p.children}</span>
      </Table>
      {row && (
        <StackTrace
          file={inB ? b.file : a.file}
          stack={inB ? row.stack : row.stackBefore}
          heading={`Stack that holds the most in ${inB ? 'B' : 'A'}`}
        />
      )}
    </div>
  );
}
