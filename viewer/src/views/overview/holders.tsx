// The holders of memory at the peak.

import type { Holder } from '../../source/generated/report';
import type { Device } from '../../source/source';
import { bytes, count, share } from '../../text/units';
import { BytesCell, Card, FIRST_ROWS, TableHead, ViewLink, frameText } from './card';

export function HoldersCard({ holders, peak }: { holders: Holder[]; peak: Device['peaks']['allocated'] }) {
  return (
    <Card title={`Holders of the ${bytes(peak.bytes)} at the peak`}>
      <table class="numbers">
        <TableHead columns={{ Stack: 'words', Blocks: 'numeric', Bytes: 'numeric', Share: 'numeric' }} />
        <tbody>
          {holders.slice(0, FIRST_ROWS).map((holder, i) => (
            <tr key={i}>
              <td class="wide">{holderText(holder)}</td>
              <td class="numeric">{count(holder.count)}</td>
              <BytesCell n={holder.bytes} />
              <td class="numeric">{share(holder.bytes, peak.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="finding-links">
        <ViewLink to="moment" moment={peak.moment}>
          {holders.length > FIRST_ROWS ? `Show all ${count(holders.length)} as a flame graph` : 'Show as a flame graph'}
        </ViewLink>
      </p>
    </Card>
  );
}

/** Returns the innermost Python frame and the group's key; for memory live before recording, with the report's prefix. */
export function holderText(holder: Holder): string {
  const inner = holder.stack.find((frame) => frame.filename.endsWith('.py'));
  const key = inner && frameText(inner) !== holder.key ? `${frameText(inner)} ‹ ${holder.key}` : holder.key;
  if (!holder.preexisting) return key;
  return holder.freed_at ? `(live before recording, freed at) ${key}` : `(live before recording) ${key}`;
}
