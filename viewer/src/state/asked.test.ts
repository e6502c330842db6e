import { signal } from '@preact/signals';
import { expect, test, vi } from 'vitest';
import { asked, once } from './asked';
import { chosenDevice, file } from './place';
import { trouble } from './trouble';

/** Questions that the test answers. */
function byHand() {
  const answers: ((text: string) => void)[] = [];
  return { answers, ask: () => new Promise<string>((resolve) => answers.push(resolve)) };
}

test('the former answer stays until the next, unless it belongs to another recording', async () => {
  const about = signal(1);
  const { answers, ask } = byHand();
  const value = asked(() => (about.value === 0 ? null : ask()));
  expect(value.value).toBeNull();
  answers[0]!('one');
  await vi.waitFor(() => expect(value.value).toBe('one'));
  about.value = 2;
  expect(value.value).toBe('one');
  chosenDevice.value = 1;
  expect(value.value).toBeNull();
  answers[1]!('too late');
  answers[2]!('three');
  await vi.waitFor(() => expect(value.value).toBe('three'));
  file.value = 1;
  expect(value.value).toBeNull();
  about.value = 0;
  expect(value.value).toBeNull();
});

test('errors are reported', async () => {
  const value = asked(() => Promise.reject(new Error('no such thing')));
  await vi.waitFor(() => expect(trouble.value).toBe('no such thing'));
  expect(value.value).toBeNull();
});

test('once per device, until it fails', async () => {
  const ask = vi.fn(async (file: number, device: number) => {
    if (ask.mock.calls.length === 1) throw new Error('not yet');
    return `${file} ${device}`;
  });
  const of = once(ask);
  const wanted = new AbortController().signal;
  await expect(of(0, 1, wanted)).rejects.toThrow('not yet');
  expect(await of(0, 1, wanted)).toBe('0 1');
  expect(await of(0, 1, wanted)).toBe('0 1');
  expect(await of(1, 0, wanted)).toBe('1 0');
  expect(ask).toHaveBeenCalledTimes(3);
});

test('an unwanted question is aborted, and asked again', async () => {
  const signals: AbortSignal[] = [];
  const of = once(
    (_file, _device, unwanted) =>
      new Promise<string>((_, reject) => {
        signals.push(unwanted);
        unwanted.addEventListener('abort', () => reject(new Error('given up')));
      }),
  );
  const [a, b, c] = [new AbortController(), new AbortController(), new AbortController()];
  const answers = [of(0, 0, a.signal), of(0, 0, b.signal)];
  a.abort();
  expect(signals.map((s) => s.aborted)).toEqual([false]);
  b.abort();
  void of(0, 0, c.signal);
  expect(signals.map((s) => s.aborted)).toEqual([true, false]);
  expect((await Promise.allSettled(answers)).map((one) => one.status)).toEqual(['rejected', 'rejected']);
});
