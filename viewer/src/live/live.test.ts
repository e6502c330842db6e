import { expect, test } from 'vitest';
import { NONE, type Code, type Live, type Names, type Tables, type Tags } from '../source/source';
import { difference } from './difference';
import { group, sum } from './group';
import { matchingEntries } from './match';
import { shortFile, stackLabel } from './stacks';
import { follow, pathTo, stepsTo, tree, type Node } from './tree';

interface Frame {
  file: string;
  line: number;
  function: string;
  code: Code;
}

const frame = (text: string, code: Code = 'user'): Frame => {
  const [, file, line, name] = /^(.*):(\d+) (.*)$/.exec(text)!;
  return { file: file!, line: Number(line), function: name!, code };
};

/** Names of these stacks, each innermost first; frames are numbered as they come. */
function namesOf(stacks: Frame[][]): Names {
  const all: Frame[] = [];
  const number = (f: Frame) => {
    const at = all.findIndex((g) => g.file === f.file && g.line === f.line && g.function === f.function);
    return at >= 0 ? at : all.push(f) - 1;
  };
  const numbered = stacks.map((s) => s.map(number));
  let end = 0;
  return {
    label: all.map((f) => `${f.file}:${f.line} ${f.function}`),
    file: all.map((f) => `/home/u/${f.file}`),
    line: all.map((f) => f.line),
    function: all.map((f) => f.function),
    code: all.map((f) => f.code),
    ends: Uint32Array.from(numbered, (s) => (end += s.length)),
    frames: Uint32Array.from(numbered.flat()),
    own: Uint32Array.from(numbered, (s) => s.find((f) => all[f]?.code === 'user') ?? s[0] ?? NONE),
  };
}

type Row = [stack: number, bytes: number, origin?: number, tags?: number, purpose?: number];

function liveOf(rows: Row[]): Live {
  const total = sum(rows.map((r) => r[1]));
  return {
    moment: 0,
    counters: { requested: total, allocated: total, active: total, reserved: total },
    stack: Uint32Array.from(rows, (r) => r[0]),
    tags: Uint32Array.from(rows, (r) => r[3] ?? 0),
    origin: Uint8Array.from(rows, (r) => r[2] ?? 0),
    purpose: Uint8Array.from(rows, (r) => r[4] ?? 0),
    bytes: Float64Array.from(rows, (r) => r[1]),
    requested: Float64Array.from(rows, (r) => r[1]),
    count: Uint32Array.from(rows, () => 1),
  };
}

const tags = (stream: number, pool: [number, number] | null, layer: string | null): Tags => ({
  stream,
  pool,
  layer,
  recorded_category: null,
  compile_context: null,
  user_metadata: null,
});

const tables = (...all: Tags[]): Tables => ({
  tags: all,
  purposes: (['activation', 'gradient'] as const).map((category) => ({ category, because: 'it is so' })),
});

const native = frame('alloc.cpp:1 malloc', 'native');
const linear = frame('torch/linear.py:9 forward', 'library');
const main = frame('train.py:10 main');
const forward = frame('model.py:42 forward');
const backward = frame('model.py:50 backward');

const names = namesOf([[native, linear, forward, main], [native, backward, main], [native], [linear, forward, main]]);

const steps = (...labels: string[]) => labels.map((label) => (names.label.includes(label) ? names.label.indexOf(label) : label));

test('groups sum to what is live, by everything', () => {
  const live = liveOf([
    [0, 100],
    [1, 50],
    [2, 7],
    [3, 20],
    [NONE, 3],
    [0, 11, 1],
    [1, 5, 2, 1, 1],
  ]);
  const known = tables(tags(0, [0, 0], 'h.0.attn'), tags(4, [0, 1], null));
  for (const by of ['stack', 'line', 'function', 'file', 'category', 'layer', 'stream', 'pool'] as const) {
    const groups = group(live, by, names, known);
    expect(sum(groups.map((g) => g.bytes))).toBe(196);
    expect(sum(groups.map((g) => g.count))).toBe(7);
    expect(groups.map((g) => g.bytes)).toEqual(groups.map((g) => g.bytes).sort((a, b) => b - a));
  }
  expect(group(live, 'pool', names, known).map((g) => g.label)).toEqual(['default pool', 'pool 0.1']);
  expect(group(live, 'category', names, known).map((g) => [g.label, g.bytes])).toEqual([
    ['activation', 191],
    ['gradient', 5],
  ]);
  expect(group(live, 'layer', names, known).map((g) => g.label)).toEqual(['h.0.attn', '(no module)']);
});

test('by line, stacks with one own frame are one group, and memory live before recording stands apart', () => {
  const live = liveOf([
    [0, 100],
    [3, 120],
    [0, 11, 1],
    [NONE, 2, 1],
  ]);
  const groups = group(live, 'line', names, tables(tags(0, null, null)));
  expect(groups.map((g) => [g.label, g.bytes, g.stack])).toEqual([
    ['model.py:42 forward', 220, 3],
    ['model.py:42 forward (live before recording)', 11, 0],
    ['live before recording', 2, NONE],
  ]);
});

test('a stack is called by its innermost frames that are not native, and the one that names it', () => {
  expect(stackLabel(names, 0)).toBe('torch/linear.py:9 forward ‹ model.py:42 forward ‹ train.py:10 main');
  expect(stackLabel(names, 2)).toBe('alloc.cpp:1 malloc');
  expect(stackLabel(names, NONE)).toBe('(no stack)');
  expect(shortFile(names, 2)).toBe('model.py');
});

test('the tree has the users frames, callers above, and sums at every node', () => {
  const root = tree(
    liveOf([
      [0, 100],
      [1, 50],
      [2, 7],
      [3, 20],
      [NONE, 3],
      [1, 5, 2],
    ]),
    names,
    false,
  );
  expect([root.bytes, root.weight, root.count]).toEqual([185, 185, 6]);
  expect(root.children.map((c) => [c.label, c.bytes])).toEqual([
    ['train.py:10 main', 170],
    ['alloc.cpp:1 malloc', 7],
    ['live before recording; where it was freed', 5],
    ['(no stack)', 3],
  ]);
  const at = follow(root, steps('train.py:10 main', 'model.py:42 forward'));
  expect([at.bytes, at.count]).toEqual([120, 2]);
  expect(pathTo(at).map((n) => n.label)).toEqual(['all allocated', 'train.py:10 main', 'model.py:42 forward']);
  expect(follow(root, steps('train.py:10 main', 'gone')).label).toBe('train.py:10 main');
});

test('the tree of all frames has the native ones too', () => {
  const root = tree(liveOf([[0, 100]]), names, true);
  expect(
    follow(root, steps('train.py:10 main', 'model.py:42 forward', 'torch/linear.py:9 forward', 'alloc.cpp:1 malloc')).depth,
  ).toBe(4);
});

test('frames that share a label are told apart', () => {
  const alike = { ...names, label: names.label.map(() => 'operator()') };
  const root = tree(
    liveOf([
      [0, 100],
      [1, 50],
      [NONE, 3],
      [NONE, 2, 1],
    ]),
    alike,
    true,
  );
  const walk = (node: Node): Node[] => [node, ...node.children.flatMap(walk)];
  expect(walk(root)).toHaveLength(9);
  for (const node of walk(root)) expect(follow(root, stepsTo(node))).toBe(node);
});

test('compared trees keep what is gone, and weigh the larger of both', () => {
  const root = tree(
    liveOf([
      [0, 100],
      [1, 10],
    ]),
    names,
    false,
    liveOf([
      [1, 60],
      [2, 5],
    ]),
  );
  expect([root.bytes, root.before, root.weight]).toEqual([110, 65, 165]);
  const gone = follow(root, steps('alloc.cpp:1 malloc'));
  expect([gone.bytes, gone.before, gone.weight]).toEqual([0, 5, 5]);
});

test('differences sum to the difference of the totals, and match recordings by text', () => {
  const other = namesOf([[native, backward, main], [native, linear, forward, main], [frame('new.py:1 f')]]);
  const none = tables(tags(0, null, null));
  const before = group(
    liveOf([
      [0, 100],
      [1, 50],
      [2, 7],
    ]),
    'stack',
    names,
    none,
  );
  const after = group(
    liveOf([
      [0, 80],
      [1, 90],
      [2, 31],
    ]),
    'stack',
    other,
    none,
  );
  const changes = difference(before, after);
  expect(changes.map((c) => [c.label, c.before, c.after, c.bytes])).toEqual([
    ['new.py:1 f', 0, 31, 31],
    ['model.py:50 backward ‹ train.py:10 main', 50, 80, 30],
    ['alloc.cpp:1 malloc', 7, 0, -7],
    ['torch/linear.py:9 forward ‹ model.py:42 forward ‹ train.py:10 main', 100, 90, -10],
  ]);
  expect(sum(changes.map((c) => c.bytes))).toBe(201 - 157);
  const same = changes.find((c) => c.before === 100)!;
  expect([same.stackBefore, same.stackAfter]).toEqual([0, 1]);
});

test('a search finds bytes at every node above the matching stacks', () => {
  const live = liveOf([
    [0, 100],
    [1, 50],
    [3, 20, 0, 1],
  ]);
  const query = { stacks: [0, 3], tags: null, purposes: null, address: null, version: null, min: null, max: null };
  const matches = matchingEntries(query, live)!;
  expect([...matches]).toEqual([1, 0, 1]);
  const root = tree(live, names, false, null, matches);
  expect([root.found, follow(root, steps('train.py:10 main', 'model.py:50 backward')).found]).toEqual([120, 0]);
  expect(group(live, 'line', names, tables(tags(0, null, null)), matches).map((g) => g.found)).toEqual([true, false]);
  expect([...matchingEntries({ ...query, tags: [1] }, live)!]).toEqual([0, 0, 1]);
  expect([...matchingEntries({ ...query, stacks: null, purposes: [1] }, live)!]).toEqual([0, 0, 0]);
  expect([...matchingEntries({ ...query, purposes: [0] }, live)!]).toEqual([1, 0, 1]);
  expect(matchingEntries({ ...query, stacks: null, min: 5 }, live)).toBeNull();
});
