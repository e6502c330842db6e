// A section of the report as its rows of text, for sections without a card of their own.

import type { ReportSection } from '../../source/generated/report';
import { Card } from './card';

export function TextCard({ title, lines }: ReportSection) {
  return (
    <Card title={title}>
      <pre class="section-text">{lines.join('\n')}</pre>
    </Card>
  );
}
