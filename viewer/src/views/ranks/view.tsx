// Loads the ranks view, whose script only pages of a job need.

import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { Waiting } from '../../parts/controls';
import { reason } from '../../text/reason';

const view = signal<ComponentType | null>(null);
const failed = signal<string | null>(null);

export function View() {
  useEffect(() => {
    import('./ranks').then(
      ({ RanksView }) => (view.value = RanksView),
      (e: unknown) => (failed.value = reason(e)),
    );
  }, []);
  const Ranks = view.value;
  return Ranks ? <Ranks /> : <Waiting error={failed.value} what="Reading the recordings of all ranks." />;
}
