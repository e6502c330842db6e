// The page's questions about a recording. `file` and `device` are positions in `recordings()` and in its `devices`. A slow question
// fails when its signal is aborted.

import { toMeaning, toNames, toRecording } from './answers';
import { decode } from './columns';
import type { Engine, Progress } from './engine';
import type * as sent from './generated/questions';
import type { Ranks } from './generated/server';
import type { Names, Picture, Recording } from './source';

export type Source = ReturnType<typeof askedOf>;

type Asked<Name> = { question: Name } & Extract<sent.Question, { question: Name }>;

/** Returns the questions, answered by `engine`. */
export function askedOf(engine: Engine) {
  const ask = async <Name extends keyof sent.Answers>(
    file: number,
    device: number,
    question: Asked<Name>,
    unwanted?: AbortSignal,
  ): Promise<sent.Answers[Name]> => decode(await engine.ask({ file, device }, question, unwanted));
  return {
    ask,
    /** Resolves when every file is read. A closed file is null. */
    recordings: async (read?: (progress: Progress) => void): Promise<(Recording | null)[]> =>
      ((await engine.recordings(read)) as (sent.Recording | null)[]).map((one) => one && toRecording(one)),
    names: async (file: number): Promise<Names> => toNames(await ask(file, 0, { question: 'names' })),
    picture: async (file: number, device: number, window: sent.Window, unwanted?: AbortSignal): Promise<Picture> => ({
      ...(await ask(file, device, { question: 'picture', ...window }, unwanted)),
      window,
    }),
    /** Computes the categories of a device whose purposes are null. */
    meaning: async (file: number, device: number) => toMeaning(await ask(file, device, { question: 'meaning' })),
    /** All ranks of a job; null if the page does not show a job. */
    ranks: async () => engine.job && decode<Ranks>(await engine.job.ranks()),
    /** Reads the recording of a rank, by its position, if it is not open. */
    readRank: async (rank: number) => (engine.job ? toRecording((await engine.job.read(rank)) as sent.Recording) : null),
    tooLarge: engine.tooLarge,
    open: engine.open,
    operators: engine.operators,
    page: engine.page,
    readSource: engine.readSource,
    console: engine.console,
    close: engine.close,
  };
}
