// Memory that is live while nothing uses it. Only recordings of phantom GPUs have accesses.

import { batch } from '@preact/signals';
import type { ReportIdle } from '../../source/generated/report';
import type { IdleTexts } from '../../source/source';
import { view } from '../../state/place';
import { search } from '../../state/search';
import { bytes } from '../../text/units';
import { Card, exactBytes, useFirstRows } from './card';

interface Row {
  /** The number of the finding, from 1, as in a search. */
  number: number;
  bytes: number;
  line: string;
  text: string;
}

/** Returns the findings that need no extra work when mended, and those between two uses. */
export function idleRows({ findings }: ReportIdle, texts: IdleTexts): { mendable: Row[]; between: Row[] } {
  const rows = findings.map((finding, i) => {
    const [line = '', text = ''] = texts.findings[i] ?? [];
    return { kind: finding.kind, number: i + 1, bytes: finding.bytes, line, text };
  });
  return {
    mendable: rows.filter(({ kind }) => kind !== 'between_uses'),
    between: rows.filter(({ kind }) => kind === 'between_uses'),
  };
}

function IdleList({ rows }: { rows: Row[] }) {
  const [shown, rest] = useFirstRows(rows);
  const find = (number: number) =>
    batch(() => {
      search.value = `idle:${number}`;
      view.value = 'timeline';
    });
  return (
    <>
      <ul class="finding-rows">
        {shown.map(({ number, ...row }) => (
          <li key={number}>
            <b title={exactBytes(row.bytes)}>{bytes(row.bytes)}</b>
            <span>
              <button type="button" class="link-button" onClick={() => find(number)}>
                {row.line}
              </button>
              <br />
              {row.text}
            </span>
          </li>
        ))}
      </ul>
      {rest}
    </>
  );
}

export function IdleCard({ idle, texts }: { idle: ReportIdle | undefined; texts: IdleTexts | null }) {
  if (!idle || !texts) return null;
  const { mendable, between } = idleRows(idle, texts);
  return (
    <Card title="Idle memory">
      {texts.told.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      <IdleList rows={mendable} />
      {between.length > 0 && (
        <>
          <p>Idle between two uses, as candidates for offload or recomputation:</p>
          <IdleList rows={between} />
        </>
      )}
      {texts.left_out && <p class="quiet">{texts.left_out}</p>}
    </Card>
  );
}
