// A queue for questions that follow the pointer: one runs at a time, and only the newest waiting one is kept. A long-running question is
// aborted in favor of a newer one.

export interface Newest<Q> {
  /** Asks now, or after the running question. */
  want(question: Q): void;
  /** Aborts the running question and asks nothing more. */
  stop(): void;
}

/**
 * How long a question may take, in milliseconds, while a newer one waits. Answers within this time are still shown, so that the picture
 * follows the pointer.
 */
export const PATIENCE_MS = 1000;

/** Creates the queue. `ask` asks a question, `got` receives its answer, `failed` its error; an aborted question has neither. */
export function newest<Q, A>(
  ask: (question: Q, unwanted: AbortSignal) => Promise<A>,
  got: (answer: A, question: Q) => void,
  failed: (error: unknown, question: Q) => void,
): Newest<Q> {
  let busy = false;
  let stopped = false;
  let waiting: { question: Q } | null = null;
  let under = { end: new AbortController(), began: 0 };
  let patience: ReturnType<typeof setTimeout> | undefined;

  async function run(): Promise<void> {
    busy = true;
    while (waiting) {
      const { question }: { question: Q } = waiting;
      waiting = null;
      clearTimeout(patience);
      patience = undefined;
      const { end } = (under = { end: new AbortController(), began: performance.now() });
      try {
        const answer = await ask(question, end.signal);
        if (!stopped) got(answer, question);
      } catch (error) {
        if (!stopped && !end.signal.aborted) failed(error, question);
      }
    }
    busy = false;
  }

  return {
    want(question) {
      waiting = { question };
      if (!busy) void run();
      else patience ??= setTimeout(() => under.end.abort(), under.began + PATIENCE_MS - performance.now());
    },
    stop() {
      stopped = true;
      waiting = null;
      clearTimeout(patience);
      under.end.abort();
    },
  };
}
