// The local server of `vramscope view`. It reads the files and answers each question; nothing leaves the machine.

import type { Console, Engine, Job, Progress } from './engine';
import type { Source, SqlAnswer, SqlQuery, SqlTables } from './generated/server';

async function answer(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (e) {
    if (init?.signal?.aborted) throw e;
    throw new Error('vramscope view does not answer. Is it still running?');
  }
  if (!response.ok) throw new Error(await reason(response));
  return response;
}

async function reason(response: Response): Promise<string> {
  try {
    const told = (await response.json()) as { error?: unknown };
    if (typeof told.error === 'string') return told.error;
  } catch {
    // The answer is not JSON, so only the status is known.
  }
  return `vramscope view answered ${response.status} ${response.statusText}`.trim();
}

/** Builds a request that the browser aborts with the signal. */
const posted = (body: BodyInit | null, unwanted: AbortSignal | undefined): RequestInit => ({
  method: 'POST',
  body,
  ...(unwanted ? { signal: unwanted } : {}),
});

/** Milliseconds between two questions about the progress of reading. */
const PROGRESS_MS = 300;

async function askProgress(read: (progress: Progress) => void): Promise<void> {
  // The question about the recordings says what is wrong with the server.
  const response = await fetch('api/progress').catch(() => null);
  const progress: Progress | null = response?.ok ? await response.json() : null;
  if (progress) read(progress);
}

const JOB: Job = {
  ranks: async () => (await answer('api/ranks')).arrayBuffer(),
  read: async (rank) => (await answer(`api/${rank}/read`, posted(null, undefined))).json(),
};

const CONSOLE: Console = {
  tables: async () => (await (await answer('api/sql')).json()) as SqlTables,
  answer: async (sql, unwanted) => {
    const query: SqlQuery = { sql };
    return (await (await answer('api/sql', posted(JSON.stringify(query), unwanted))).json()) as SqlAnswer;
  },
};

/** `isOfRanks`: the page shows all ranks of a job. */
export function server(isOfRanks = false): Engine {
  return {
    job: isOfRanks ? JOB : null,
    recordings: async (read) => {
      const timer = read && setInterval(() => void askProgress(read), PROGRESS_MS);
      try {
        return await (await answer('api/recordings')).json();
      } finally {
        clearInterval(timer);
      }
    },
    ask: async ({ file, device }, question, unwanted) =>
      (await answer(`api/${file}/${device}/ask`, posted(JSON.stringify(question), unwanted))).arrayBuffer(),
    // The server itself reports a lack of memory.
    tooLarge: async () => null,
    open: async (file, _read, unwanted) => {
      const response = await answer(`api/open?${new URLSearchParams({ name: file.name })}`, posted(file, unwanted));
      return ((await response.json()) as { file: number }).file;
    },
    operators: async (file, trace, _read, unwanted) => {
      await answer(`api/${file}/operators?${new URLSearchParams({ name: trace.name })}`, posted(trace, unwanted));
    },
    page: async (open, notesOn) => {
      const body = JSON.stringify({ files: open, notes: notesOn(open) });
      return (await answer('api/page', posted(body, undefined))).blob();
    },
    readSource: async (file, query, unwanted) =>
      (await (await answer(`api/${file}/source`, posted(JSON.stringify(query), unwanted))).json()) as Source,
    console: CONSOLE,
    close: async (file) => {
      await answer(`api/${file}/close`, posted(null, undefined));
    },
  };
}
