import { expect, test, vi } from 'vitest';
import { PATIENCE_MS, newest } from './newest';

test('a waiting question is replaced, a running one is not', async () => {
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

test('a slow question is aborted for a newer one, without an answer or error', async () => {
  vi.useFakeTimers();
  const asked: number[] = [];
  const [got, failed] = [vi.fn(), vi.fn()];
  const queue = newest(
    (n: number, unwanted) =>
      new Promise<number>((resolve, reject) => {
        asked.push(n);
        if (n > 1) resolve(n);
        else unwanted.addEventListener('abort', () => reject(new Error('given up')));
      }),
    got,
    failed,
  );
  queue.want(1);
  queue.want(2);
  await vi.advanceTimersByTimeAsync(PATIENCE_MS - 10);
  expect(asked).toEqual([1]);
  await vi.advanceTimersByTimeAsync(20);
  expect(asked).toEqual([1, 2]);
  expect(got.mock.calls).toEqual([[2, 2]]);
  expect(failed).not.toHaveBeenCalled();
  vi.useRealTimers();
});

test('the running question is aborted at the end', () => {
  const signals: AbortSignal[] = [];
  const queue = newest(
    (_: number, unwanted) => (signals.push(unwanted), new Promise<number>(() => {})),
    () => {},
    () => {},
  );
  queue.want(1);
  queue.stop();
  expect(signals.map((s) => s.aborted)).toEqual([true]);
});

test('a failure does not stop the queue', async () => {
  const failed = vi.fn();
  const got = vi.fn();
  const queue = newest(async (n: number) => (n === 1 ? Promise.reject(new Error('no')) : n), got, failed);
  queue.want(1);
  await vi.waitFor(() => expect(failed).toHaveBeenCalledOnce());
  queue.want(2);
  await vi.waitFor(() => expect(got).toHaveBeenCalledWith(2, 2));
});
