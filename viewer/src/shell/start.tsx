// The start page while no recording is open: examples, and how to make a recording.

import { signal } from '@preact/signals';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';
import { Examples } from './examples';

const WAYS: [title: string, code: string][] = [
  [
    "PyTorch's own recorder",
    'torch.cuda.memory._record_memory_history(max_entries=1_000_000)\ntrain()\ntorch.cuda.memory._dump_snapshot("snapshot.pickle")',
  ],
  ['With categories and modules', 'import vramscope.torch\nwith vramscope.torch.record("run.pickle"):\n    train()'],
  ['An unchanged script', 'vramscope run --record run.pickle -- python train.py'],
];

/** The title of the snippet that was copied last. */
const copied = signal<string | null>(null);

async function copy(title: string, code: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(code);
    copied.value = title;
  } catch (e) {
    trouble.value = `Copying failed: ${reason(e)}`;
  }
}

export function Start() {
  return (
    <div class="page-note start">
      <h2>No recording is open</h2>
      <p>
        Drop a snapshot here, or choose one with Open: a file of torch.cuda.memory._dump_snapshot, or a log of a vramscope pool.
      </p>
      <Examples />
      <h3>How to record one</h3>
      {WAYS.map(([title, code]) => (
        <section key={title} aria-label={title}>
          <header>
            <span>{title}</span>
            <button type="button" class="button" aria-label={`Copy: ${title}`} onClick={() => void copy(title, code)}>
              {copied.value === title ? 'Copied' : 'Copy'}
            </button>
          </header>
          <pre tabIndex={0} aria-label={`Code: ${title}`} role="group">
            {code}
          </pre>
        </section>
      ))}
      <p>
        From the command: <code>vramscope view snapshot.pickle</code>
      </p>
    </div>
  );
}
