// The page's questions about a recording. `file` and `device` are positions in `recordings()` and in its `devices`. A slow question
// fails when its signal is aborted.

import { toMeaning, toNames, toRecording } from './answers';
import { decode } from './columns';
import type { DeviceAt, Engine } from './engine';
import type { Ranks } from './generated/ranks';
import type { DiffRequest, ReplayRequest } from './generated/requests';
import type * as sent from './generated/view';
import type { Names, Picture, Recording } from './source';

export type Source = ReturnType<typeof askedOf>;

/** Returns the questions, answered by `engine`. */
export function askedOf(engine: Engine) {
  const ask = async <T>(file: number, device: number, question: sent.Question, unwanted?: AbortSignal): Promise<T> =>
    decode<T>(await engine.ask({ file, device }, question, unwanted));
  return {
    /** Resolves when every file is read. A closed file is null. */
    recordings: async (): Promise<(Recording | null)[]> =>
      ((await engine.recordings()) as (sent.Recording | null)[]).map((one) => one && toRecording(one)),
    names: async (file: number): Promise<Names> => toNames(await ask<sent.Names>(file, 0, { question: 'names' })),
    picture: async (file: number, device: number, window: sent.Window, unwanted?: AbortSignal): Promise<Picture> => ({
      ...(await ask<sent.Picture>(file, device, { question: 'picture', ...window }, unwanted)),
      window,
    }),
    bands: (file: number, device: number, span: sent.Span, unwanted?: AbortSignal) =>
      ask<sent.Bands>(file, device, { question: 'bands', ...span }, unwanted),
    /** Computes the categories of a device whose purposes are null. */
    meaning: async (file: number, device: number) => toMeaning(await ask<sent.Meaning>(file, device, { question: 'meaning' })),
    live: (file: number, device: number, query: sent.LiveQuery, unwanted?: AbortSignal) =>
      ask<sent.Live>(file, device, { question: 'live', ...query }, unwanted),
    /** Allocations and frees between two moments. */
    spent: (file: number, device: number, query: sent.SpentQuery, unwanted?: AbortSignal) =>
      ask<sent.Spent>(file, device, { question: 'spent', ...query }, unwanted),
    /** The holders of both devices, from this device to the other. */
    holdersOfBoth: (file: number, device: number, query: sent.HoldersOfBothQuery, unwanted?: AbortSignal) =>
      ask<sent.Holders>(file, device, { question: 'holders_of_both', ...query }, unwanted),
    /** The group keys for coloring; categories, steps and sizes need none. */
    groups: (file: number, device: number, by: sent.By) => ask<sent.Groups>(file, device, { question: 'groups', by }),
    legend: (file: number, device: number, query: sent.LegendQuery, unwanted?: AbortSignal) =>
      ask<sent.Legend>(file, device, { question: 'legend', ...query }, unwanted),
    /** Groups in an interval of each of two devices, each at its own peak. */
    highestOfBoth: (file: number, device: number, query: sent.HighestOfBothQuery, unwanted?: AbortSignal) =>
      ask<sent.HighestOfBoth>(file, device, { question: 'highest_of_both', ...query }, unwanted),
    layout: (file: number, device: number, moment: number, unwanted?: AbortSignal) =>
      ask<sent.Layout>(file, device, { question: 'layout', moment }, unwanted),
    holes: (file: number, device: number, moment: number, unwanted?: AbortSignal) =>
      ask<sent.Holes>(file, device, { question: 'holes', moment }, unwanted),
    hole: (file: number, device: number, moment: number, address: number, unwanted?: AbortSignal) =>
      ask<sent.HoleSince>(file, device, { question: 'hole', moment, address }, unwanted),
    pool: (file: number, device: number, query: sent.PoolQuery, unwanted?: AbortSignal) =>
      ask<sent.PoolHeld>(file, device, { question: 'pool', ...query }, unwanted),
    events: (file: number, device: number, first: number, count: number) =>
      ask<sent.Events>(file, device, { question: 'events', first, count }),
    allocation: (file: number, device: number, id: number) => ask<sent.Allocation>(file, device, { question: 'allocation', id }),
    search: (file: number, device: number, search: sent.Query, unwanted?: AbortSignal) =>
      ask<sent.Found>(file, device, { question: 'search', search }, unwanted),
    allocations: (file: number, device: number, query: sent.AllocationsQuery, unwanted?: AbortSignal) =>
      ask<sent.Allocations>(file, device, { question: 'allocations', ...query }, unwanted),
    specks: (file: number, device: number, query: sent.SpecksQuery, unwanted?: AbortSignal) =>
      ask<sent.Specks>(file, device, { question: 'specks', ...query }, unwanted),
    place: (file: number, device: number, id: number, stacked: sent.ByteKind) =>
      ask<sent.Place>(file, device, { question: 'place', id, stacked }),
    regions: (file: number, device: number) => ask<sent.Regions>(file, device, { question: 'regions' }),
    markers: (file: number, device: number) => ask<sent.Markers>(file, device, { question: 'markers' }),
    segments: (file: number, device: number, unwanted?: AbortSignal) =>
      ask<sent.Segments>(file, device, { question: 'segments' }, unwanted),
    report: (file: number, device: number, unwanted?: AbortSignal) =>
      ask<sent.Report>(file, device, { question: 'report' }, unwanted),
    replay: (file: number, device: number, query: ReplayRequest, unwanted?: AbortSignal) =>
      ask<sent.Replay>(file, device, { question: 'replay', ...query }, unwanted),
    /** Whether PyTorch accepts a setting. */
    setting: (file: number, device: number, conf: string, unwanted?: AbortSignal) =>
      ask<sent.SettingCheck>(file, device, { question: 'setting', conf }, unwanted),
    /** The known GPUs, independent of the file. */
    gpus: (file: number) => ask<sent.KnownGpu[]>(file, 0, { question: 'gpus' }),
    /** The changes from one device to another, at their peaks or at those of a step. */
    comparison: (a: DeviceAt, b: DeviceAt, request: DiffRequest, unwanted?: AbortSignal) => {
      const question = { question: 'comparison', other_file: b.file, other_device: b.device, request } as const;
      return ask<sent.Comparison>(a.file, a.device, question, unwanted);
    },
    /** All ranks of a job; null if the page does not show a job. */
    ranks: async () => engine.job && decode<Ranks>(await engine.job.ranks()),
    /** Reads the recording of a rank, by its position, if it is not open. */
    readRank: async (rank: number) => (engine.job ? toRecording((await engine.job.read(rank)) as sent.Recording) : null),
    tooLarge: engine.tooLarge,
    open: engine.open,
    page: engine.page,
    close: engine.close,
  };
}
