// One question under way at a time, and of those that wait only the newest.

export interface Newest<Q> {
  want(question: Q): void;
  stop(): void;
}

export function newest<Q, A>(
  ask: (question: Q) => Promise<A>,
  got: (answer: A, question: Q) => void,
  failed: (error: unknown, question: Q) => void,
): Newest<Q> {
  let busy = false;
  let stopped = false;
  let waiting: { question: Q } | null = null;

  async function run(): Promise<void> {
    busy = true;
    while (waiting) {
      const { question }: { question: Q } = waiting;
      waiting = null;
      try {
        const answer = await ask(question);
        if (!stopped) got(answer, question);
      } catch (error) {
        if (!stopped) failed(error, question);
      }
    }
    busy = false;
  }

  return {
    want(question) {
      waiting = { question };
      if (!busy) void run();
    },
    stop() {
      stopped = true;
      waiting = null;
    },
  };
}
