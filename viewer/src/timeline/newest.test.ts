import { expect, test, vi } from 'vitest';
import { newest } from './newest';

test('what waits is replaced, what is under way is not', async () => {
  const asked: number[] = [];
  const got: number[] = [];
  const answers = new Map<number, (n: number) => void>();
  const queue = newest(
    (n: number) => new Promise<number>((resolve) => (asked.push(n), answers.set(n, resolve))),
    (answer) => got.push(answer),
    () => {},
  );
  [1, 2, 3].forEach(queue.want);
  expect(asked).toEqual([1]);
  answers.get(1)!(1);
  await vi.waitFor(() => expect(asked).toEqual([1, 3]));
  answers.get(3)!(3);
  await vi.waitFor(() => expect(got).toEqual([1, 3]));
});

test('a failure does not end it', async () => {
  const failed = vi.fn();
  const got = vi.fn();
  const queue = newest(async (n: number) => (n === 1 ? Promise.reject(new Error('no')) : n), got, failed);
  queue.want(1);
  await vi.waitFor(() => expect(failed).toHaveBeenCalledOnce());
  queue.want(2);
  await vi.waitFor(() => expect(got).toHaveBeenCalledWith(2, 2));
});
