// Small synthetic recordings for tests, in PyTorch's JSON.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratch } from './command';

/** A log with accesses and another library (crates/vramscope-viewer/tests/server/log.rs). */
export const log = join(import.meta.dirname, 'data/log.vramscope');

export interface Frame {
  name: string;
  filename: string;
  line: number;
}

export type Entry = Record<string, unknown>;

const MIB = 1 << 20;
export const BASE = 0x7f0000000000;

export const frame = (name: string, filename = '/home/user/train.py', line = 10): Frame => ({ name, filename, line });

/** Writes a snapshot and returns its path. */
export function write(name: string, snapshot: object): string {
  const file = join(scratch(), name);
  writeFileSync(file, JSON.stringify(snapshot));
  return file;
}

export const block = (address: number, size: number, state = 'active_allocated', more: Entry = {}): Entry => ({
  address,
  size,
  requested_size: size,
  state,
  frames: [],
  ...more,
});

export const segment = (address: number, size: number, blocks: Entry[], more: Entry = {}): Entry => ({
  device: 0,
  address,
  total_size: size,
  stream: 0,
  segment_type: 'large',
  segment_pool_id: [0, 0],
  is_expandable: false,
  allocated_size: 0,
  active_size: 0,
  requested_size: 0,
  frames: [],
  blocks,
  ...more,
});

export interface Made {
  bytes: number;
  address: number;
  stream: number;
  line: number;
}

/** `count` allocations in separate segments, every second one freed at once. Its contents are known. */
export function known(count: number, { times = true, stacks = true } = {}): { file: string; made: Made[] } {
  const trace: Entry[] = [];
  const segments: Entry[] = [];
  const made: Made[] = [];
  let time = 1_700_000_000_000_000;
  const put = (entry: Entry) => trace.push(times ? { ...entry, time_us: (time += 1000) } : entry);
  for (let i = 0; i < count; i += 1) {
    const bytes = (12 + (i % 5)) * 2 * MIB;
    const address = BASE + i * 64 * MIB;
    const stream = i % 3;
    const line = 10 + (i % 4);
    const frames = [frame(`layer${i % 4}`, '/home/user/model.py', line), frame('main', '/home/user/train.py', 99)];
    const event = { addr: address, size: bytes, stream, ...(stacks ? { frames } : {}) };
    put({ action: 'segment_alloc', ...event });
    put({ action: 'alloc', ...event });
    made.push({ bytes, address, stream, line });
    const freed = i % 2 === 1;
    if (freed) {
      put({ action: 'free_requested', ...event });
      put({ action: 'free_completed', ...event });
    }
    segments.push(segment(address, bytes, [block(address, bytes, freed ? 'inactive' : 'active_allocated')], { stream }));
  }
  return { file: write('known.json', { segments, device_traces: [trace] }), made };
}

/** A training step with recorded categories, as the Python package writes them, followed by this many events. */
export function told(more = 0): { file: string; bytes: Record<'parameter' | 'activation' | 'gradient', number> } {
  const trace: Entry[] = [];
  const put = (action: string, address: number, size: number, metadata: string) =>
    trace.push({ action, addr: BASE + address * MIB, size: size * MIB, stream: 0, user_metadata: metadata });
  const parameter = 'vramscope:category=parameter;module=net.fc';
  const activation = 'vramscope:category=activation;module=net.act;phase=forward';
  const gradient = 'vramscope:category=gradient;module=;phase=backward';
  put('segment_alloc', 0, 128, parameter);
  put('alloc', 0, 16, parameter);
  put('alloc', 16, 64, activation);
  put('alloc', 80, 16, gradient);
  put('free_requested', 16, 64, activation);
  put('free_completed', 16, 64, activation);
  put('alloc', 16, 32, activation);
  for (let i = 0; i < more; i += 1)
    put(i % 3 === 0 ? 'alloc' : i % 3 === 1 ? 'free_requested' : 'free_completed', 100, 2, gradient);
  return {
    file: write('told.json', { segments: [], device_traces: [trace] }),
    bytes: { parameter: 16 * MIB, activation: 64 * MIB, gradient: 16 * MIB },
  };
}

/**
 * A program of annotated steps of six events: 16 MiB are allocated, then 32 MiB, and everything is freed. The step of number `large`
 * (from 0) requests 64 MiB instead of 32.
 */
export function stepping(count: number, large: number | null = null): string {
  const trace: Entry[] = [];
  const annotations: Entry[] = [];
  let time = 1_700_000_000_000_000;
  const put = (action: string, address: number, size: number, name: string) =>
    trace.push({ action, addr: BASE + address * MIB, size: size * MIB, stream: 0, time_us: (time += 10), frames: [frame(name)] });
  const annotate = (stage: string, step: number) =>
    annotations.push({ device: 0, stage, name: `ProfilerStep#${step}`, time_us: (time += 10) });
  put('segment_alloc', 0, 128, 'main');
  put('alloc', 100, 8, 'prepare');
  for (let step = 0; step < count; step += 1) {
    const size = step === large ? 64 : 32;
    annotate('START', step);
    put('alloc', 0, 16, 'forward');
    put('alloc', 16, size, 'backward');
    for (const [address, bytes] of [
      [0, 16],
      [16, size],
    ] as const) {
      put('free_requested', address, bytes, 'backward');
      put('free_completed', address, bytes, 'backward');
    }
    annotate('END', step);
  }
  return write('steps.json', { segments: [], device_traces: [trace], external_annotations: annotations });
}

/**
 * One allocation of the backward pass, made by generated code from a line of the model, with its originating forward pass. Its stack has
 * frames of every kind.
 */
export function compiled(forward: string[]): string {
  const original = '  File "/home/user/model.py", line 31, in forward\n    return self.linear(x)\n';
  const frames = [
    frame('torch::unwind::unwind()', '??', 0),
    frame('torch::CapturedTraceback::gather(bool, bool, bool)', '??', 0),
    frame('at::native::addmm(at::Tensor const&)', '??', 0),
    { ...frame('call', '/home/user/generated.py', 7), fx_node_name: 'addmm_1', fx_original_trace: original },
    frame('backward', '/env/lib/python3.11/site-packages/torch/_tensor.py', 500),
    frame('<module>', '/home/user/train.py', 99),
    frame('_run_code', '<frozen runpy>', 88),
    frame('_start', '??', 0),
  ];
  const event = { addr: BASE, size: 20 * MIB, stream: 0, frames, forward_frames: forward };
  const events = ['segment_alloc', 'alloc'].map((action) => ({ action, ...event }));
  return write('compiled.json', { segments: [segment(BASE, 20 * MIB, [block(BASE, 20 * MIB)])], device_traces: [events] });
}

/** A recording without any device. */
export const empty = () => write('empty.json', { segments: [], device_traces: [[]] });

/** Two devices; only the second was used. */
export function oneIdle(): string {
  const at = BASE + (1 << 30);
  const event = { addr: at, size: 20 * MIB, stream: 0, frames: [frame('main')] };
  return write('idle.json', {
    segments: [segment(at, 20 * MIB, [block(at, 20 * MIB)], { device: 1 })],
    device_traces: [
      [],
      [
        { action: 'segment_alloc', time_us: 5, ...event },
        { action: 'alloc', time_us: 6, ...event },
      ],
    ],
  });
}

/** Two devices: the first has the higher peak, 40 MiB, and the second, of 20 MiB, ran out of memory. */
export function secondFailed(): string {
  const event = (size: number) => ({ addr: BASE, size: size * MIB, stream: 0, frames: [frame('main')] });
  return write('two.json', {
    segments: [],
    device_traces: [
      [
        { action: 'segment_alloc', time_us: 5, ...event(40) },
        { action: 'alloc', time_us: 6, ...event(40) },
        { action: 'free_requested', time_us: 7, ...event(40) },
        { action: 'free_completed', time_us: 8, ...event(40) },
      ],
      [
        { action: 'segment_alloc', time_us: 5, ...event(20) },
        { action: 'alloc', time_us: 6, ...event(20) },
        { action: 'oom', time_us: 9, size: 70 * MIB, device_free: 3 * MIB, stream: 0, frames: [frame('main')] },
      ],
    ],
  });
}

/** One line that allocates two blocks in each of 60 steps: it frees one, and keeps the other. */
export const leaking = () => write('leaking.json', { segments: [], device_traces: [leakingTrace()] });

/** Two GPUs: the first has the higher peak, the second the leak. */
export function leakingOnOther(): string {
  const trace = [{ action: 'alloc', addr: BASE, size: 800 * MIB, stream: 0, frames: [frame('main')] }];
  return write('leaking-on-other.json', { segments: [], device_traces: [trace, leakingTrace()] });
}

function leakingTrace(): Entry[] {
  const trace: Entry[] = [];
  const put = (action: string, address: number, size: number, name: string) =>
    trace.push({ action, addr: BASE + address * MIB, size: size * MIB, stream: 0, frames: [frame(name)] });
  for (let step = 0; step < 60; step += 1) {
    put('alloc', 2 * step, 2, 'remember');
    put('alloc', 1000, 2, 'remember');
    put('alloc', 2000, 400, 'work');
    for (const [address, size] of [
      [1000, 2],
      [2000, 400],
    ] as const) {
      put('free_requested', address, size, 'main');
      put('free_completed', address, size, 'main');
    }
  }
  return trace;
}

/**
 * Training steps without annotations: three layers of `bytes` each forward, as many gradients backward, an optimizer step with a
 * temporary block, and a zero grad. `larger` is a step, counted from 0, whose second layer allocates twice as much.
 */
export function training(steps: number, larger: number | null = null): string {
  const trace: Entry[] = [];
  let time = 1_700_000_000_000_000;
  const put = (action: string, address: number, bytes: number, ...frames: Frame[]) => {
    time += 10;
    trace.push({ action, addr: BASE + address * 16 * MIB, size: bytes, stream: 0, time_us: time, frames });
  };
  const free = (address: number, bytes: number) => {
    put('free_requested', address, bytes);
    put('free_completed', address, bytes);
  };
  const main = frame('main');
  const torch = (name: string, file: string) => frame(name, `/env/site-packages/torch/${file}`);
  const layer = (n: number) => [
    frame('forward', '/home/user/model.py', 20 + n),
    torch('_call_impl', 'nn/modules/module.py'),
    main,
  ];
  const backward = [torch('_engine_run_backward', 'autograd/graph.py'), torch('backward', '_tensor.py'), main];
  const optimizer = [torch('_multi_tensor_adam', 'optim/adam.py'), torch('step', 'optim/adam.py'), main];
  const layers = [0, 1, 2];
  const sizeOf = (step: number, n: number) => (step === larger && n === 1 ? 8 : 4) * MIB;
  for (const n of layers) put('alloc', n, 2 * MIB, torch('_apply', 'nn/modules/module.py'), main);
  for (let step = 0; step < steps; step += 1) {
    put('alloc', 9, MIB, main);
    for (const n of layers) put('alloc', 10 + n, sizeOf(step, n), ...layer(n));
    for (const n of [...layers].reverse()) {
      put('alloc', 20 + n, 2 * MIB, ...backward);
      free(10 + n, sizeOf(step, n));
    }
    put('alloc', 30, 6 * MIB, ...optimizer);
    free(30, 6 * MIB);
    for (const n of layers) free(20 + n, 2 * MIB);
    free(9, MIB);
  }
  return write(`training-${steps}-${larger}.json`, { segments: [], device_traces: [trace] });
}

/** Buffers of two collectives on two streams: an `all_gather` of FSDP, and the buckets of DDP, beside a block of the user's. */
export function exchanging(): string {
  const torch = (name: string, file: string) => frame(name, `/env/site-packages/torch/${file}`, 90);
  const gather = [torch('foreach_all_gather', 'distributed/fsdp/_fully_shard/_fsdp_collectives.py'), frame('main')];
  const reduce = [torch('_ddp_init_helper', 'nn/parallel/distributed.py'), frame('main')];
  const event = (address: number, mib: number, stream: number, frames: Frame[]) => ({
    action: 'alloc',
    addr: BASE + address * MIB,
    size: mib * MIB,
    stream,
    frames,
  });
  const trace = [
    event(0, 100, 0, [frame('main')]),
    event(200, 12, 7, gather),
    event(300, 6, 7, gather),
    event(400, 25, 0, reduce),
  ];
  return write('exchanging.json', { segments: [], device_traces: [trace] });
}

/** Regions that overlap without nesting, and five events of 2 MiB, one in each part. */
export function overlapping(): string {
  const trace: Entry[] = [];
  const annotations: Entry[] = [];
  let time = 1_700_000_000_000_000;
  const annotate = (stage: string, name: string) => annotations.push({ device: 0, stage, name, time_us: (time += 10) });
  const alloc = () =>
    trace.push({
      action: 'alloc',
      addr: BASE + trace.length * 2 * MIB,
      size: 2 * MIB,
      stream: 0,
      time_us: (time += 10),
      frames: [frame('main')],
    });
  alloc();
  annotate('START', 'load');
  alloc();
  annotate('START', 'compute');
  alloc();
  annotate('END', 'load');
  annotate('START', 'store');
  alloc();
  annotate('END', 'compute');
  alloc();
  annotate('END', 'store');
  return write('overlapping.json', { segments: [], device_traces: [trace], external_annotations: annotations });
}

/** The output of `_dump_snapshot` without a recorded history. */
export const segmentsOnly = () =>
  write('segments.json', {
    segments: [
      segment(BASE, 20 * MIB, [block(BASE, 12 * MIB), block(BASE + 12 * MIB, 8 * MIB, 'inactive')]),
      segment(BASE + 64 * MIB, 2 * MIB, [block(BASE + 64 * MIB, 2 * MIB)], { segment_type: 'small', stream: 7 }),
    ],
    device_traces: [[]],
  });

/** Text that would run if it were treated as markup or a script. */
export const HOSTILE = `</script><script>document.title='broken'</script><img src=x onerror="document.title='broken'"><!--`;

/** A recording in which every name is HOSTILE; the file name omits the slashes. */
export function hostile(): string {
  const generated = { fx_node_name: HOSTILE, fx_original_trace: HOSTILE };
  const frames = [{ ...frame(`${HOSTILE}0`, `/home/user/${HOSTILE}.py`, 1), ...generated }, frame(HOSTILE, HOSTILE, 2)];
  const tags = {
    stream: 0,
    frames,
    forward_frames: [HOSTILE],
    compile_context: HOSTILE,
    user_metadata: HOSTILE,
    category: HOSTILE,
  };
  const trace: Entry[] = [];
  const segments: Entry[] = [];
  for (let i = 0; i < 8; i += 1) {
    const address = BASE + i * 64 * MIB;
    trace.push({ action: 'segment_alloc', addr: address, size: 20 * MIB, time_us: 1000 + 100 * i, ...tags });
    trace.push({ action: 'alloc', addr: address, size: 20 * MIB, time_us: 1010 + 100 * i, ...tags });
    segments.push(segment(address, 20 * MIB, [block(address, 20 * MIB, 'active_allocated', { frames })], { frames }));
  }
  trace.push({ action: 'oom', size: 80 * MIB, device_free: 4096, time_us: 1900, ...tags });
  const annotation = (stage: string, time_us: number) => ({ device: 0, stage, name: HOSTILE, time_us });
  return write(`<img src=x onerror=document.title='broken'>.json`, {
    segments,
    device_traces: [trace],
    external_annotations: [annotation('START', 1005), annotation('END', 1800)],
    allocator_settings: { PYTORCH_CUDA_ALLOC_CONF: HOSTILE },
  });
}

/** The contents of `pooled`'s graph pool by line, in bytes. */
export const IN_GRAPH_POOL = new Map([
  ['capture.py:20 capture', 6 * MIB],
  ['capture.py:30 warm', 4 * MIB],
]);

/**
 * Memory in the default pool, part of it live before recording began, and in a graph's private pool (1, 0), which exists from event 3 on
 * and holds `IN_GRAPH_POOL`.
 */
export function pooled(): string {
  const graph = BASE + (1 << 30);
  const capture = [frame('capture', '/home/user/capture.py', 20)];
  const warm = [frame('warm', '/home/user/capture.py', 30)];
  const main = [frame('main')];
  let time = 0;
  const event = (action: string, addr: number, size: number, frames: Frame[]) => ({
    action,
    addr,
    size,
    stream: 0,
    time_us: (time += 10),
    frames,
  });
  return write('pooled.json', {
    segments: [
      segment(BASE, 20 * MIB, [
        block(BASE, 8 * MIB, 'active_allocated', { frames: main }),
        block(BASE + 8 * MIB, 4 * MIB, 'inactive'),
        block(BASE + 12 * MIB, 2 * MIB, 'active_allocated', { frames: main }),
        block(BASE + 14 * MIB, 6 * MIB, 'inactive'),
      ]),
      segment(
        graph,
        20 * MIB,
        [
          block(graph, 6 * MIB, 'active_allocated', { frames: capture }),
          block(graph + 6 * MIB, 4 * MIB, 'active_allocated', { frames: warm }),
          block(graph + 10 * MIB, 10 * MIB, 'inactive'),
        ],
        { segment_pool_id: [1, 0] },
      ),
    ],
    device_traces: [
      [
        event('alloc', BASE + 8 * MIB, 4 * MIB, main),
        event('free_requested', BASE + 8 * MIB, 4 * MIB, main),
        event('free_completed', BASE + 8 * MIB, 4 * MIB, main),
        event('segment_alloc', graph, 20 * MIB, capture),
        event('alloc', graph, 6 * MIB, capture),
        event('alloc', graph + 6 * MIB, 4 * MIB, warm),
        event('alloc', BASE + 12 * MIB, 2 * MIB, main),
      ],
    ],
  });
}
