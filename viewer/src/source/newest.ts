// A queue for questions that follow the pointer: one is under way at a time, and of those that wait only the newest is kept.
// A question that takes long is given up for a newer one.

export interface Newest<Q> {
  /** Asks, at once or when what is under way has been answered. */
  want(question: Q): void;
  /** Gives up what is under way and asks nothing more. */
  stop(): void;
}

/**
 * How long a question may take, in milliseconds, while a newer one waits. A quick answer is still shown, so that the picture
 * follows the pointer.
 */
export const PATIENCE_MS = 1000;

/** The queue. `ask` asks a question, `got` takes an answer, `failed` an error; a question that was given up has neither. */
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
