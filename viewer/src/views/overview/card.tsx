// Common parts of the overview's cards: their frame, links to other views, and lists that start with a few rows.

import { batch } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ReportFrame } from '../../source/generated/report';
import { chooseMoment } from '../../state/moves';
import { view, type ViewName } from '../../state/place';
import { baseName } from '../../text/path';
import { bytes, count } from '../../text/units';

/** The number of rows that a list shows at first. */
export const FIRST_ROWS = 8;
/** The number of rows that each click on "more" adds. */
const MORE_ROWS = 100;

/** Returns the first rows of a list, and a button that shows more of them, or false. */
export function useFirstRows<T>(all: readonly T[]): [shown: readonly T[], more: ComponentChildren] {
  const [most, setMost] = useState(FIRST_ROWS);
  const left = all.length - most;
  const more = left > 0 && (
    <p>
      <button type="button" class="link-button" onClick={() => setMost(most + MORE_ROWS)}>
        {left > MORE_ROWS ? `${count(MORE_ROWS)} of ${count(left)} more` : `${count(left)} more`}
      </button>
    </p>
  );
  return [all.slice(0, most), more];
}

/** Formats `1 block`, `2 blocks`. */
export const counted = (n: number, one: string, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

/** Formats `train.py:12 forward`. */
export const frameText = (frame: ReportFrame) => `${baseName(frame.filename)}:${frame.line} ${frame.name}`;

/** Formats `1,234 bytes`: the title of a cell with rounded bytes. */
export const exactBytes = (n: number) => `${count(n)} bytes`;

export function Card({ title, tone, children }: { title: string; tone?: 'bad' | 'warn'; children: ComponentChildren }) {
  return (
    <section class={tone ? `card card-${tone}` : 'card'}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** The head of a table: each column's name, and whether its cells are words or numbers. */
export function TableHead({ columns }: { columns: Record<string, 'words' | 'numeric'> }) {
  return (
    <thead>
      <tr>
        {Object.entries(columns).map(([name, kind]) => (
          <th key={name} scope="col" class={kind === 'numeric' ? kind : undefined}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** A cell with rounded bytes; its title has the exact number. */
export function BytesCell({ n }: { n: number }) {
  return (
    <td class="numeric" title={exactBytes(n)}>
      {bytes(n)}
    </td>
  );
}

/** A link to another view, and to a moment in it. */
export function ViewLink({ to, moment, children }: { to: ViewName; moment?: number; children: ComponentChildren }) {
  const go = () =>
    batch(() => {
      view.value = to;
      if (moment !== undefined) chooseMoment(moment);
    });
  return (
    <button type="button" class="link-button" onClick={go}>
      {children}
    </button>
  );
}
