// One question under way at a time, and of those that wait only the newest. One that takes long is given up for a newer one.

export interface Newest<Q> {
  want(question: Q): void;
  stop(): void;
}

/** A quick answer is shown although a newer question waits: it follows the hand. */
export const PATIENCE_MS = 1000;

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
