// Queries to start from.

import type { Chart } from './state';

export interface Example {
  title: string;
  sql: string;
  chart: Chart;
}

/** Returns the examples; with `several` files, rows name theirs. */
export function examples(several: boolean): Example[] {
  const rank = several ? 'rank, ' : '';
  const table = 'table' as const;
  const all: Example[] = [
    {
      title: 'Largest blocks never freed',
      sql: `SELECT ${rank}device, allocation, block_bytes, line\nFROM allocations\nWHERE free_event IS NULL\nORDER BY block_bytes DESC\nLIMIT 100`,
      chart: table,
    },
    {
      title: 'Lines by allocated bytes',
      sql: `SELECT ${rank}device, line, count(*) AS allocations, sum(block_bytes) AS bytes,\n  first_value(allocation ORDER BY block_bytes DESC, allocation) AS allocation\nFROM allocations\nGROUP BY ${rank}device, line\nORDER BY bytes DESC\nLIMIT 30`,
      chart: 'bars',
    },
    {
      title: 'Categories at the peak',
      sql: `SELECT ${rank}key AS category, bytes, count\nFROM holders\nWHERE grouped_by = 'category'\nORDER BY bytes DESC`,
      chart: 'bars',
    },
    {
      title: 'Allocated bytes after each event',
      sql: `SELECT ${rank}device, event, allocated_bytes\nFROM events\nORDER BY ${rank}device, event`,
      chart: 'line',
    },
    {
      title: 'Large blocks freed soon',
      sql: `SELECT ${rank}device, allocation, block_bytes, free_event - alloc_event AS events, line\nFROM allocations\nWHERE block_bytes >= 1048576 AND free_event IS NOT NULL\nORDER BY events, block_bytes DESC\nLIMIT 100`,
      chart: table,
    },
    {
      title: 'Failed requests',
      sql: `SELECT ${rank}device, event, size_bytes, line\nFROM events\nWHERE action = 'oom'\nORDER BY event`,
      chart: table,
    },
  ];
  const ofSeveral: Example = {
    title: 'Peaks of the recordings',
    sql: 'SELECT rank, file, peak_allocated_event, peak_allocated_bytes, peak_reserved_bytes\nFROM summary\nORDER BY peak_allocated_bytes DESC NULLS LAST',
    chart: table,
  };
  return several ? [ofSeveral, ...all] : all;
}
