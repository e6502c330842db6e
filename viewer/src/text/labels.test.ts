import { expect, test } from 'vitest';
import { endOf, labelParts } from './labels';
import { shortPaths } from './path';

const parts = (label: string) => {
  const { before, path, name } = labelParts(label);
  // Nothing is lost.
  expect(before + path + name).toBe(label);
  return [before, path, name];
};

test('the path of a label may be cut, its line and function stay', () => {
  expect(parts('model/attention.py:42 forward')).toEqual(['', 'model/', 'attention.py:42 forward']);
  expect(parts('a/b/c.py:1 f ‹ d/e.py:2 g')).toEqual(['', 'a/b/', 'c.py:1 f ‹ d/e.py:2 g']);
  expect(parts('C:\\runs\\train.py:3 main')).toEqual(['', 'C:\\runs\\', 'train.py:3 main']);
  expect(parts('train.py:3 main')).toEqual(['', '', 'train.py:3 main']);
  expect(parts('forward (model/attention.py)')).toEqual(['forward (', 'model/', 'attention.py)']);
  expect(parts('model/attention.py')).toEqual(['', 'model/', 'attention.py']);
  expect(parts('(live before recording) a/b.py:1 f')).toEqual(['(live before recording) ', 'a/', 'b.py:1 f']);
  expect(parts('(live before recording, freed at) a/b.py:1 f')).toEqual(['(live before recording, freed at) ', 'a/', 'b.py:1 f']);
});

test('layers and modules keep their last two names', () => {
  expect(parts('model.layers.0.mlp.down_proj')).toEqual(['', 'model.layers.0.', 'mlp.down_proj']);
  expect(parts('net.fc')).toEqual(['', '', 'net.fc']);
  expect(parts('train.py')).toEqual(['', '', 'train.py']);
});

test.each(['', '(no stack)', 'at::native::empty', '1 MiB to 2 MiB', 'private pool (1, 0)', 'optimizer state', '...', 'a..b.c'])(
  '%s stands as it is, or loses nothing',
  (label) => void parts(label),
);

test('a long text keeps its end', () => {
  expect(endOf('resnet50-torch2.11.pickle', 12)).toBe('…2.11.pickle');
  expect(endOf('short', 5)).toBe('short');
  expect(endOf('🙂🙂🙂', 2)).toBe('…🙂');
});

test('files get as much of their paths as distinguishes them', () => {
  expect(shortPaths(['/runs/a/train.pickle', '/runs/b/train.pickle', '/runs/b/other.pickle'])).toEqual([
    'a/train.pickle',
    'b/train.pickle',
    'other.pickle',
  ]);
  expect(shortPaths(['x.pickle', 'y/x.pickle'])).toEqual(['x.pickle', 'y/x.pickle']);
  expect(shortPaths(['/r/x.pickle', '/r/x.pickle'])).toEqual(['x.pickle', 'x.pickle']);
  expect(shortPaths(['C:\\a\\x.pickle', 'C:\\b\\x.pickle'])).toEqual(['a/x.pickle', 'b/x.pickle']);
});
