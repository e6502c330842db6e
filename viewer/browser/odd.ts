// Recordings with missing or strange parts, as in possible PyTorch files. No view may fail on them.

import { block, empty, frame, known, oneIdle, segment, segmentsOnly, write, type Entry } from './recordings';

const MIB = 1 << 20;
const AT = 0x7f0000000000;
const frames = [frame('forward', '/home/user/model.py', 7), frame('main')];

let time = 1_700_000_000_000_000;
const event = (action: string, more: Entry = {}): Entry => ({
  action,
  addr: AT,
  size: 2 * MIB,
  stream: 0,
  time_us: (time += 1000),
  frames,
  ...more,
});
const history = (name: string, trace: Entry[], segments: Entry[] = [], more: Entry = {}) =>
  write(`${name}.json`, { segments, device_traces: [trace], ...more });

/** Every kind of event that PyTorch writes or wrote, and an unknown one, as named in the file. */
export const EVERY_ACTION = [
  'segment_alloc',
  'alloc',
  'annotate',
  'user_defined',
  'snapshot',
  'oom',
  'segment_map',
  'segment_unmap',
  'free_requested',
  'free_completed',
  'free',
  'segment_free',
  'frobnicate',
];

export const everyAction = () =>
  history(
    'every-action',
    EVERY_ACTION.map((action, i) => event(action, { addr: AT + (i > 5 ? 0 : i > 1 ? 64 * MIB : 0) })),
  );

/** The recordings by their peculiarity. */
export const odd = (): Record<string, string> => ({
  'without a device': empty(),
  'one device of two was used': oneIdle(),
  'segments and no events': segmentsOnly(),
  'segments and no allocations': history(
    'no-allocations',
    [],
    [
      segment(AT, 20 * MIB, [block(AT, 20 * MIB, 'inactive')]),
      segment(AT + 64 * MIB, 2 * MIB, [block(AT + 64 * MIB, 2 * MIB, 'inactive')], { segment_type: 'small' }),
    ],
  ),
  'a segment without blocks': history('no-blocks', [], [segment(AT, 20 * MIB, [])]),
  'no stacks': known(8, { stacks: false }).file,
  'no times': known(8, { times: false }).file,
  'one event': history('one-event', [event('alloc')]),
  'only segment events': history('segment-events', [event('segment_alloc'), event('segment_free')]),
  'only frees': history('only-frees', [
    event('free_requested'),
    event('free_completed'),
    event('free_completed', { addr: AT + 4 * MIB, frames: [] }),
  ]),
  'frees that wait': history(
    'pending',
    [
      event('segment_alloc', { size: 20 * MIB }),
      event('alloc'),
      event('free_requested'),
      event('alloc', { addr: AT + 2 * MIB }),
      event('free_requested', { addr: AT + 2 * MIB }),
    ],
    [
      segment(AT, 20 * MIB, [
        block(AT, 2 * MIB, 'active_pending_free'),
        block(AT + 2 * MIB, 2 * MIB, 'active_awaiting_free'),
        block(AT + 4 * MIB, 16 * MIB, 'inactive'),
      ]),
    ],
  ),
  'private pools': history(
    'private-pools',
    [
      event('segment_alloc', { pool_id: [1, 0], stream: 7 }),
      event('alloc', { pool_id: [1, 0], stream: 7 }),
      event('segment_alloc', { addr: AT + 64 * MIB, segment_pool_id: [0, 3] }),
      event('alloc', { addr: AT + 64 * MIB }),
    ],
    [
      segment(AT, 2 * MIB, [block(AT, 2 * MIB)], { segment_pool_id: [1, 0], stream: 7 }),
      segment(AT + 64 * MIB, 2 * MIB, [block(AT + 64 * MIB, 2 * MIB)], { segment_pool_id: [0, 3], is_expandable: true }),
    ],
  ),
  'every kind of event': everyAction(),
  'only unknown kinds': history('unknown', [event('frobnicate'), event('twiddle', { frames: [] })]),
  'only out of memory': history('only-oom', [
    { action: 'oom', size: 80 * MIB, device_free: 4096, stream: 0, time_us: 5, frames },
    { action: 'oom', size: 1 << 30, device_free: 0, stream: 3, time_us: 6, frames: [] },
  ]),
  'sizes of nothing and of everything': history('sizes', [
    event('alloc', { size: 0 }),
    event('alloc', { addr: AT + MIB, size: 2 ** 46 }),
    event('free_completed', { size: 0 }),
    event('alloc', { addr: 0, size: 512 }),
  ]),
  'regions that do not end': history('regions', [event('alloc'), event('free_completed')], [], {
    external_annotations: [
      { device: 0, stage: 'START', name: 'step', time_us: 5 },
      { device: 0, stage: 'END', name: 'other', time_us: 9 },
      { device: 0, stage: 'START', name: '', time_us: 2 ** 52 },
    ],
    allocator_settings: { PYTORCH_CUDA_ALLOC_CONF: '', max_split_size: -1 },
  }),
  'the device of the host': write('host.json', {
    segments: [segment(AT, 2 * MIB, [block(AT, 2 * MIB)], { device: -1 })],
    device_traces: [[]],
  }),
});
