import { beforeEach, expect, test } from 'vitest';
import type { CallTransform, FramesOf, Names } from '../source/source';
import { callZoom, callsOf } from './grouping';
import {
  addTransform,
  collapseLibraries,
  collapsedFrames,
  expand,
  framesAt,
  keepingTransforms,
  removeTransform,
  removeTransforms,
  stepText,
  transformText,
  transforms,
  transformsForm,
} from './transforms';
import { trouble } from './trouble';

const load: FramesOf = { of: 'function', name: 'load', file: 'data.py' };
const torch: FramesOf = { of: 'library', name: 'torch' };
const path: CallTransform = { does: 'focus_path', calls: 'own', inverted: false, path: ['a.py:1 f', 'b'] };

beforeEach(() => removeTransforms());

test('the address keeps transforms, and drops what is not one', () => {
  const all: CallTransform[] = [
    { does: 'drop', frames: load },
    { does: 'merge', frames: torch },
    { does: 'collapse', frames: { of: 'file', name: 'x "y" &.py' } },
    { does: 'collapse_libraries', expanded: ['at::'] },
    { does: 'collapse_recursion', frames: load },
    path,
  ];
  expect(transformsForm.read(transformsForm.write(all))).toEqual(all);
  for (const text of ['', '{', '{}', '"text"', 'null', `[${'['.repeat(200_000)}`])
    expect(transformsForm.read(text)).toBe(undefined);
  const odd = [
    null,
    3,
    {},
    { does: 'drop' },
    { does: 'drop', frames: { of: 'function', name: 'f' } },
    { does: 'drop', frames: { of: 'stream', name: 'f' } },
    { does: 'erase', frames: load },
    { does: 'collapse_libraries', expanded: [1] },
    { ...path, path: [] },
    { ...path, path: Array.from({ length: 1002 }, () => 'f') },
    { ...path, calls: 'mine' },
    { ...path, inverted: 'yes' },
  ];
  expect(transformsForm.read(JSON.stringify([...odd, path]))).toEqual([path]);
  expect(transformsForm.read(JSON.stringify(Array.from({ length: 99 }, () => path)))).toHaveLength(64);
});

test('the search has the transforms up to the last that keeps only some allocations', () => {
  const merge: CallTransform = { does: 'merge', frames: torch };
  expect(keepingTransforms([merge])).toEqual([]);
  expect(keepingTransforms([merge, path, merge])).toEqual([merge, path]);
});

test('a transform is added once, resets the zoom, and is removed', () => {
  callZoom.value = [3];
  addTransform({ does: 'drop', frames: load });
  addTransform({ does: 'drop', frames: { ...load } });
  addTransform(path);
  expect(callZoom.value).toBe(null);
  expect(transforms.value.map(transformText)).toEqual(['Without load (data.py)', 'Only below b']);
  removeTransform(0);
  expect(transforms.value).toEqual([path]);
  for (let i = 0; i < 70; i += 1) addTransform({ does: 'drop', frames: { of: 'file', name: `${i}.py` } });
  expect(transforms.value).toHaveLength(64);
  expect(trouble.value).toMatch(/too many transforms/);
});

test('collapsed frames expand again', () => {
  callsOf.value = 'own';
  collapseLibraries(true);
  // The user's own frames have no libraries.
  expect(callsOf.value).toBe('all');
  addTransform({ does: 'collapse', frames: load });
  expect(collapsedFrames('load (data.py)')).toEqual(load);
  expect(collapsedFrames('torch')).toEqual(torch);
  expand('torch');
  expand('load (data.py)');
  expect(transforms.value).toEqual([{ does: 'collapse_libraries', expanded: ['torch'] }]);
  expect(transforms.value.map(transformText)).toEqual(['Libraries collapsed, except torch']);
  collapseLibraries(false);
  expect(transforms.value).toEqual([]);
  expect(collapsedFrames('torch')).toBe(null);
});

test('a frame has a function, a file and a library', () => {
  const names = {
    short_file: ['train.py', 'torch/nn.py', ''],
    short_function: ['main', 'forward', 'at::add'],
    library: [null, 'torch', 'at::'],
    line: [3, 7, 0],
  } as Names;
  expect([0, 1, 2].map((frame) => framesAt(names, frame))).toEqual([
    { function: { of: 'function', name: 'main', file: 'train.py' }, file: { of: 'file', name: 'train.py' }, library: null },
    {
      function: { of: 'function', name: 'forward', file: 'torch/nn.py' },
      file: { of: 'file', name: 'torch/nn.py' },
      library: torch,
    },
    { function: { of: 'function', name: 'at::add', file: '' }, file: null, library: { of: 'library', name: 'at::' } },
  ]);
  expect([0, 1, 2].map((frame) => stepText(names, frame))).toEqual(['train.py:3 main', 'torch/nn.py:7 forward', 'at::add']);
});
