// Facts about the file, and the recorded allocator settings.

import { Card } from './card';

export function FactsCard({ title, facts }: { title: string; facts: [string, string][] }) {
  if (facts.length === 0) return null;
  return (
    <Card title={title}>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === '' ? '(empty)' : value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
