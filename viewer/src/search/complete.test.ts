import { expect, test } from 'vitest';
import type { Names } from '../source/source';
import { completed, completionsAt, type Known } from './complete';

const names = {
  label: ['train.py:3 main', 'model.py:10 forward', 'my model.py:7 forward', 'at::for_each()'],
  file: ['/home/train.py', '/home/model.py', '/home/my model.py'],
  function: ['main', 'forward', 'forward', 'at::for_each()'],
  code: ['user', 'user', 'user', 'native'],
  own: Uint32Array.of(0, 2, 0),
} as unknown as Names;
const tags = (stream: number, pool: [number, number] | null, layer: string | null) =>
  ({ stream, pool, layer, recorded_category: null, compile_context: null, user_metadata: null }) as const;
const known: Known = {
  device: {
    tags: [tags(0, [0, 0], 'net.fc'), tags(7, [1, 0], null), tags(7, null, 'net.act')],
    purposes: ['parameter', 'gradient', 'optimizer_state'].map((category) => ({ category, because: '' })) as never,
    steps: null,
  },
  names,
  regions: ['forward', 'backward pass'],
};

/** The completions at the position of `|`. */
const at = (text: string) =>
  completionsAt(text.replace('|', ''), text.indexOf('|'), known)?.choices.map((one) => one.text) ?? null;

test.each([
  ['cat|', ['category:']],
  ['category:|', ['category:parameter', 'category:gradient', 'category:optimizer_state']],
  ['category:grad|', ['category:gradient']],
  ['category=opt|', ['category=optimizer_state']],
  ['category!=opt|', ['category!=optimizer_state']],
  ['a -category:par| b', ['category:parameter']],
  ['stream:|', ['stream:default', 'stream:0x7']],
  ['pool:|', ['pool:default', 'pool:1.0', 'pool:none']],
  ['layer:ac|', ['layer:net.act']],
  ['region:|', ['region:forward', 'region:"backward pass"']],
  ['function:f|', ['function:forward', 'function:"at::for_each()"']],
  ['file:my|', ['file:"/home/my model.py"']],
  ['line:|', ['line:"train.py:3 main"', 'line:"my model.py:7 forward"']],
  ['freed:n|', ['freed:never']],
  ['forw|', ['line:"my model.py:7 forward"', 'function:forward']],
  // Nothing to complete.
  ['|', null],
  ['a |', null],
  ['category:gradient|', null],
  ['category:xyz|', null],
  ['>=10MiB|', null],
  ['"quoted te|', null],
  ['foo:bar|', null],
])('%s', (text, choices) => expect(at(text)).toEqual(choices));

test('a completion replaces its word', () => {
  const text = 'a cat b';
  const all = completionsAt(text, 5, known)!;
  expect(completed(text, all, { text: 'category:', meaning: '' })).toEqual({ text: 'a category:b', caret: 11 });
  expect(completed(text, all, { text: 'category:gradient', meaning: '' })).toEqual({ text: 'a category:gradient b', caret: 20 });
});
