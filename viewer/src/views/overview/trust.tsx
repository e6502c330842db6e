// The confidence in the numbers, in the report's words.

import { Sentence } from '../../parts/sentence';
import type { Trust } from '../../source/source';
import { Card } from './card';

export function TrustCard({ trust }: { trust: Trust }) {
  return (
    <Card title={trust.title} {...(trust.is_exact ? {} : { tone: 'warn' as const })}>
      {trust.doubts.length > 0 && (
        <ul class="finding-list">
          {trust.doubts.map((doubt) => (
            <li key={doubt}>
              <Sentence text={doubt} />
            </li>
          ))}
        </ul>
      )}
      <p>{trust.replay}</p>
      {trust.dropped !== null && (
        <p>
          <Sentence text={trust.dropped} />
        </p>
      )}
    </Card>
  );
}
