// Known problems of programs with a caching allocator. The sentences are the report's.

import { Sentence } from '../../parts/sentence';
import type { AllocatorFinding } from '../../source/generated/report';
import { bytes, count } from '../../text/units';
import { Card, ViewLink } from './card';

export function AllocatorFindingCards({ findings }: { findings: AllocatorFinding[] }) {
  return findings.map((found) => (
    <Card key={found.title} title={`${found.title}: ${bytes(found.bytes)} (${found.certainty})`} tone="warn">
      <ul class="finding-list">
        {found.evidence.map((text) => (
          <li key={text}>
            <Sentence text={text} />
          </li>
        ))}
      </ul>
      <p class="finding-verdict">
        <Sentence text={found.action} />
      </p>
      {found.event !== null && (
        <p class="finding-links">
          <ViewLink to="state" moment={found.event + 1}>
            Show the segments after event {count(found.event)}
          </ViewLink>
        </p>
      )}
    </Card>
  ));
}
