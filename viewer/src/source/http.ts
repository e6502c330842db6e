// The local server of `vramscope view`: it reads the files and answers each question; nothing leaves the machine.

import { toMeaning, toNames, toRecording } from './answers';
import { decode } from './columns';
import type * as sent from './generated/view';
import type {
  Allocation,
  Bands,
  Comparison,
  Events,
  Found,
  Layout,
  Live,
  Query,
  Regions,
  Replay,
  Report,
  Segments,
  Source,
  Window,
} from './source';

type Parameters = Record<string, string | number>;

async function answer(path: string, parameters: Parameters = {}, init?: RequestInit): Promise<Response> {
  const query = new URLSearchParams(Object.entries(parameters).map(([key, value]) => [key, String(value)]));
  let response: Response;
  try {
    response = await fetch(query.size ? `${path}?${query}` : path, init);
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
    // The answer is not JSON: the status below is all that is known.
  }
  return `vramscope view answered ${response.status} ${response.statusText}`.trim();
}

async function json<T>(path: string, parameters?: Parameters, init?: RequestInit): Promise<T> {
  return (await (await answer(path, parameters, init)).json()) as T;
}

async function columns<T>(path: string, parameters?: Parameters, init?: RequestInit): Promise<T> {
  return decode<T>(await (await answer(path, parameters, init)).arrayBuffer());
}

/** Options of a request that the browser aborts when its answer is no longer wanted. */
const until = (unwanted: AbortSignal | undefined): RequestInit => (unwanted ? { signal: unwanted } : {});

const at = (file: number, device: number, question: string) => `api/${file}/${device}/${question}`;

function windowParameters(w: Window): Parameters {
  const { stacked, axis, from, to, width, height, low } = w;
  const parameters: Parameters = { stacked, axis, from, to, width, height, low, fit_reserved: w.fit_reserved ? 1 : 0 };
  return w.high === null ? parameters : { ...parameters, high: w.high };
}

export function http(): Source {
  return {
    recordings: async () => (await json<(sent.Recording | null)[]>('api/recordings')).map((one) => one && toRecording(one)),
    names: async (file) => toNames(await columns<sent.Names>(`api/${file}/names`)),
    picture: async (file, device, window, unwanted) => ({
      ...(await columns<sent.Picture>(at(file, device, 'picture'), windowParameters(window), until(unwanted))),
      window,
    }),
    bands: (file, device, span, unwanted) => columns<Bands>(at(file, device, 'bands'), { ...span }, until(unwanted)),
    meaning: async (file, device) => toMeaning(await json<sent.Meaning>(at(file, device, 'meaning'))),
    live: (file, device, moment, unwanted) => columns<Live>(at(file, device, 'live'), { moment }, until(unwanted)),
    layout: (file, device, moment, unwanted) => columns<Layout>(at(file, device, 'layout'), { moment }, until(unwanted)),
    events: (file, device, first, count) => columns<Events>(at(file, device, 'events'), { first, count }),
    allocation: (file, device, id) => json<Allocation>(at(file, device, 'allocation'), { id }),
    search: (file, device, query: Query, unwanted) => {
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(query),
        ...until(unwanted),
      };
      return columns<Found>(at(file, device, 'search'), {}, init);
    },
    regions: (file, device) => columns<Regions>(at(file, device, 'regions')),
    segments: (file, device) => columns<Segments>(at(file, device, 'segments')),
    report: (file, device, unwanted) => json<Report>(at(file, device, 'report'), {}, until(unwanted)),
    replay: (file, device, unwanted) => json<Replay>(at(file, device, 'replay'), {}, until(unwanted)),
    comparison: (a, b, unwanted) =>
      json<Comparison>(at(a.file, a.device, 'comparison'), { other_file: b.file, other_device: b.device }, until(unwanted)),
    open: async (file) => {
      const response = await answer('api/open', { name: file.name }, { method: 'POST', body: file });
      return ((await response.json()) as { file: number }).file;
    },
    close: async (file) => {
      await answer(`api/${file}/close`, {}, { method: 'POST' });
    },
  };
}
