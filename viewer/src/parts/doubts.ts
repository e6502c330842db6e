// Why a replay is not exact: the words of `approximate_because` as sentences.

import { count } from '../text/units';

const some = (n: number, one: string) => `${count(n)} ${n === 1 ? one : `${one}s`}`;
const were = (n: number, one: string) => `${some(n, one)} ${n === 1 ? 'was' : 'were'}`;

const SENTENCES = new Map(Object.entries<(n: number) => string>({
  diverges: () => 'Under the recorded settings the replay does not give the recording.',
  settings_assumed: () => "The file names no allocator settings; PyTorch's defaults were taken for them.",
  other_allocator: () => "The recording is of another allocator than PyTorch's, which has no such settings.",
  probably_overflowed: () =>
    'The oldest events were probably dropped by the ring buffer; what happened before is not replayed.',
  preexisting_blocks: (n) =>
    `${were(n, 'block')} live before recording began. Where they would have lain under other settings is not known: they are asked for anew, in address order.`,
  inferred_sizes: (n) => `The sizes of ${some(n, 'block')} live before recording began are inferred.`,
  misplaced_blocks: (n) =>
    `${some(n, 'block')} live before recording began have no room where they are said to lie, and are left out.`,
  lost_events: (n) => `${were(n, 'event')} lost: an address was used again or freed twice.`,
  segment_contradictions: (n) => `${some(n, 'segment event')} do not fit each other or the end state.`,
  end_state_disagreements: (n) =>
    `The events and the end state disagree about ${some(n, 'block')}; the events were followed.`,
  assumed_releases: (n) =>
    `Who gave cached memory back is not recorded in ${some(n, 'case')}: it is taken for the allocator where the request would have set a new record, else for the program (empty_cache).`,
  unknown_limit: () => 'A limit is a part of the device, whose size is not known, so there is none here.',
  guessed_limit: () =>
    'The recording ran out at a limit on reserved bytes, which is taken for what was reserved then; it may have been somewhat higher.',
  no_segment_events: () =>
    'No segment event was recorded: every segment was there before recording began, or such events were left out (skip_actions).',
  rounded_requests: () =>
    'Of a request that failed only the rounded size is recorded, and these settings round otherwise.',
}));

/** `preexisting_blocks:3` as a sentence; a word that is new stands for itself. */
export function doubtText(doubt: string): string {
  const [word, n] = doubt.split(':');
  if (word === 'skipped_actions') return `Events of the kind ${n} were not recorded, though some must have happened.`;
  return SENTENCES.get(word)?.(Number(n ?? 0)) ?? doubt.replaceAll('_', ' ');
}
