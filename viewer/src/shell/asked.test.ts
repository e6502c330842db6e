import { signal } from '@preact/signals';
import { expect, test, vi } from 'vitest';
import { device, file, trouble } from '../state';
import { asked, once } from './asked';

/** Questions that are answered by hand. */
function byHand() {
  const answers: ((text: string) => void)[] = [];
  return { answers, ask: () => new Promise<string>((resolve) => answers.push(resolve)) };
}

test('the former answer stays until the next, unless it is of another recording', async () => {
  const about = signal(1);
  const { answers, ask } = byHand();
  const value = asked(() => (about.value === 0 ? null : ask()));
  expect(value.value).toBeNull();
  answers[0]!('one');
  await vi.waitFor(() => expect(value.value).toBe('one'));
  about.value = 2;
  expect(value.value).toBe('one');
  device.value = 1;
  expect(value.value).toBeNull();
  answers[1]!('too late');
  answers[2]!('three');
  await vi.waitFor(() => expect(value.value).toBe('three'));
  file.value = 1;
  expect(value.value).toBeNull();
  about.value = 0;
  expect(value.value).toBeNull();
});

test('what goes wrong is said', async () => {
  const value = asked(() => Promise.reject(new Error('no such thing')));
  await vi.waitFor(() => expect(trouble.value).toBe('no such thing'));
  expect(value.value).toBeNull();
});

test('once a device, until it fails', async () => {
  const ask = vi.fn(async (file: number, device: number) => {
    if (ask.mock.calls.length === 1) throw new Error('not yet');
    return `${file} ${device}`;
  });
  const of = once(ask);
  await expect(of(0, 1)).rejects.toThrow('not yet');
  expect(await of(0, 1)).toBe('0 1');
  expect(await of(0, 1)).toBe('0 1');
  expect(await of(1, 0)).toBe('1 0');
  expect(ask).toHaveBeenCalledTimes(3);
});
