// The confidence in the numbers, in the report's words.

import { Sentence } from '../../parts/sentence';
import type { Confidence } from '../../source/source';
import { Card } from './card';

export function ConfidenceCard({ confidence }: { confidence: Confidence }) {
  return (
    <Card title={confidence.title} {...(confidence.is_exact ? {} : { tone: 'warn' as const })}>
      {confidence.limitations.length > 0 && (
        <ul class="finding-list">
          {confidence.limitations.map((doubt) => (
            <li key={doubt}>
              <Sentence text={doubt} />
            </li>
          ))}
        </ul>
      )}
      <p>{confidence.replay}</p>
      {confidence.dropped !== null && (
        <p>
          <Sentence text={confidence.dropped} />
        </p>
      )}
    </Card>
  );
}
