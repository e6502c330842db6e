// Findings on other devices of the file: out of memory at once, leaks after the shown device's findings.

import type { ComponentChildren } from 'preact';
import { useAnswer } from '../../parts/answer';
import type { Leak } from '../../source/generated/report';
import type { Recording, Report } from '../../source/source';
import { choose } from '../../state/choice';
import { firstFailure } from '../../state/files';
import { bytes, deviceName } from '../../text/units';
import { Card } from './card';
import { leakTitle } from './leaks';

interface OthersProps {
  open: Recording;
  file: number;
  shown: number;
}

/** A card about another device, which leads there. */
function Other({ open, file, at, what, tone, children }: OtherProps) {
  const name = deviceName(open.devices[at]?.device ?? 0);
  return (
    <Card title={`${name}${what}`} tone={tone}>
      <p>
        {children}{' '}
        <button type="button" class="link-button" onClick={() => choose(file, at)}>
          Show {name}
        </button>
      </p>
    </Card>
  );
}

interface OtherProps extends Omit<OthersProps, 'shown'> {
  /** The position of the device. */
  at: number;
  what: string;
  tone: 'bad' | 'warn';
  children: ComponentChildren;
}

export function OtherFailures({ shown, ...of }: OthersProps) {
  return of.open.devices.map((device, i) => {
    const failure = i === shown ? null : firstFailure(device);
    return (
      failure && (
        <Other key={i} {...of} at={i} what=" ran out of memory" tone="bad">
          {bytes(failure.bytes)} asked for.
        </Other>
      )
    );
  });
}

interface LeaksProps extends OthersProps {
  reportOf: (file: number, device: number, unwanted: AbortSignal) => Promise<Report>;
}

export function OtherLeaks({ shown, reportOf, ...of }: LeaksProps) {
  const { open, file } = of;
  // One after the other, because a recording may have many devices.
  const ask = async (unwanted: AbortSignal) => {
    const found: [device: number, leaks: Leak[]][] = [];
    for (const i of open.devices.keys()) {
      if (i !== shown) found.push([i, (await reportOf(file, i, unwanted)).device.leaks]);
    }
    return found;
  };
  const answer = useAnswer(`${file}.${shown}`, '', open.devices.length > 1 ? ask : null);
  return (answer.value ?? [])
    .filter(([, leaks]) => leaks.length > 0)
    .map(([i, leaks]) => (
      <Other key={i} {...of} at={i} what={`: ${leakTitle(leaks)}`} tone="warn">
        {bytes(leaks.reduce((sum, leak) => sum + leak.kept_bytes, 0))} kept to the end.
      </Other>
    ));
}
