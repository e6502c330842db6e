// The local server of `vramscope view`: it reads the files and answers each question; nothing leaves the machine.

import { toEvents, toFound, toLayout, toLive, toNames, toPicture, toRecording, toRegions, toSegments, type ToldRecording } from './answers';
import { decode, type Bundle } from './bundle';
import type { Allocation, Query, Source, Window } from './source';
import type { ReplayDevice, ReportDevice } from './told';

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
    // Not JSON: the status says what is known.
  }
  return `vramscope view answered ${response.status} ${response.statusText}`.trim();
}

async function json<T>(path: string, parameters?: Parameters, init?: RequestInit): Promise<T> {
  return (await (await answer(path, parameters, init)).json()) as T;
}

async function bundle<J>(path: string, parameters?: Parameters, init?: RequestInit): Promise<Bundle<J>> {
  return decode<J>(await (await answer(path, parameters, init)).arrayBuffer());
}

/** A question that ends when its answer is no longer wanted. */
const until = (unwanted: AbortSignal | undefined): RequestInit => (unwanted ? { signal: unwanted } : {});

const at = (file: number, device: number, question: string) => `api/${file}/${device}/${question}`;

function windowParameters(w: Window): Parameters {
  const { stacked, axis, from, to, width, height, low } = w;
  const parameters: Parameters = { stacked, axis, from, to, width, height, low, fit_reserved: w.fitReserved ? 1 : 0 };
  return w.high === null ? parameters : { ...parameters, high: w.high };
}

export function http(): Source {
  return {
    recordings: async () => (await json<(ToldRecording | null)[]>('api/recordings')).map((told) => told && toRecording(told)),
    names: async (file) => toNames(await bundle(`api/${file}/names`)),
    picture: async (file, device, window, unwanted) =>
      toPicture(await bundle(at(file, device, 'picture'), windowParameters(window), until(unwanted)), window),
    live: async (file, device, moment, unwanted) =>
      toLive(await bundle(at(file, device, 'live'), { moment }, until(unwanted))),
    layout: async (file, device, moment, unwanted) =>
      toLayout(await bundle(at(file, device, 'layout'), { moment }, until(unwanted))),
    events: async (file, device, first, count) =>
      toEvents(await bundle(at(file, device, 'events'), { first, count })),
    allocation: (file, device, id) => json<Allocation>(at(file, device, 'allocation'), { id }),
    search: async (file, device, query: Query, unwanted) => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(query), ...until(unwanted) };
      return toFound(await bundle(at(file, device, 'search'), {}, init));
    },
    regions: async (file, device) => toRegions(await bundle(at(file, device, 'regions'))),
    segments: async (file, device) => toSegments(await bundle(at(file, device, 'segments'))),
    report: (file, device, unwanted) => json<ReportDevice>(at(file, device, 'report'), {}, until(unwanted)),
    replay: (file, device, unwanted) => json<ReplayDevice>(at(file, device, 'replay'), {}, until(unwanted)),
    open: async (file) => {
      const response = await answer('api/open', { name: file.name }, { method: 'POST', body: file });
      return ((await response.json()) as { file: number }).file;
    },
    close: async (file) => {
      await answer(`api/${file}/close`, {}, { method: 'POST' });
    },
  };
}
