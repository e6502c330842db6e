// The editor of the SQL console: the query and its error, examples, earlier queries, and the tables with their columns.

import { useRef } from 'preact/hooks';
import { Button } from '../../parts/controls';
import type { SqlError, SqlTable } from '../../source/source';
import { isOfRanks } from '../../state/files';
import { recordings } from '../../state/recordings';
import { draft, earlierQueries, runQuery, sql } from './state';
import { count } from '../../text/units';
import { examples } from './examples';

export function Editor({ tables, error }: { tables: SqlTable[]; error: SqlError | null }) {
  const box = useRef<HTMLTextAreaElement>(null);
  const text = draft.value ?? sql.value;
  const isEmpty = text.trim() === '';
  const several = isOfRanks || (recordings.value?.filter((one) => one !== null).length ?? 0) > 1;
  const insert = (name: string) => {
    const { current } = box;
    if (!current) return;
    current.setRangeText(name, current.selectionStart, current.selectionEnd, 'end');
    current.focus();
    draft.value = current.value;
  };
  return (
    <div class="sql-editor">
      <label>
        <span class="visually-hidden">Query</span>
        <textarea
          ref={box}
          rows={6}
          spellcheck={false}
          autocomplete="off"
          value={text}
          placeholder="SELECT line, sum(block_bytes) AS bytes FROM allocations GROUP BY line"
          aria-invalid={error !== null}
          onInput={(e) => (draft.value = e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key !== 'Enter' || !(e.ctrlKey || e.metaKey) || isEmpty) return;
            e.preventDefault();
            runQuery(text);
          }}
        />
      </label>
      <div class="toolbar">
        <Button onClick={() => runQuery(text)} disabled={isEmpty}>
          Run
        </Button>
        <span class="quiet">
          <kbd>Ctrl Enter</kbd>
        </span>
      </div>
      {error && <Refused error={error} query={sql.value} />}
      <h3>Examples</h3>
      <ul class="sql-queries" aria-label="Examples">
        {examples(several).map(({ title, sql, chart }) => (
          <li key={title}>
            <button type="button" class="link-button" title={sql} onClick={() => runQuery(sql, chart)}>
              {title}
            </button>
          </li>
        ))}
      </ul>
      <h3>Tables</h3>
      {tables.map(({ name, columns }) => (
        <details key={name}>
          <summary>{name}</summary>
          <ul class="sql-columns" aria-label={`Columns of ${name}`}>
            {columns.map((column) => (
              <li key={column}>
                <button type="button" class="link-button" title="Insert into the query" onClick={() => insert(column)}>
                  {column}
                </button>
              </li>
            ))}
          </ul>
        </details>
      ))}
      {earlierQueries.value.length > 0 && (
        <details>
          <summary>Earlier queries</summary>
          <ul class="sql-queries" aria-label="Earlier queries">
            {earlierQueries.value.map((one) => (
              <li key={one}>
                <button type="button" class="link-button" title={one} onClick={() => runQuery(one)}>
                  {one.replace(/\s+/g, ' ')}
                </button>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** Why a query failed, with a mark below the wrong word. */
function Refused({ error, query }: { error: SqlError; query: string }) {
  const line = error.at && query.split('\n')[error.at[0] - 1];
  return (
    <div class="sql-error" role="alert">
      <p>{error.text.replace(/ at Line: \d+, Column: \d+$/, '')}</p>
      {error.at && typeof line === 'string' && (
        <>
          <p class="quiet">
            Line {count(error.at[0])}, column {count(error.at[1])}:
          </p>
          <pre>
            {line}
            {'\n'}
            {' '.repeat(Math.max(error.at[1] - 1, 0))}^
          </pre>
        </>
      )}
    </div>
  );
}
