import { expect, test } from 'vitest';
import { hotLines, linesOf, rowsOf, type Row } from './lines';

const row = (line: number, live: number, allocated: number): Row => ({ frame: line, line, live, own: live, allocated, count: 1 });

test('an answer is one row for each line', () => {
  const answer = {
    frame: Uint32Array.of(7, 9),
    line: Uint32Array.of(2, 4),
    live: Float64Array.of(10, 0),
    own: Float64Array.of(5, 0),
    allocated: Float64Array.of(30, 20),
    count: Uint32Array.of(3, 2),
    findings: [],
  };
  expect(rowsOf(answer)).toEqual([
    { frame: 7, line: 2, live: 10, own: 5, allocated: 30, count: 3 },
    { frame: 9, line: 4, live: 0, own: 0, allocated: 20, count: 2 },
  ]);
});

test('all lines of a text are shown, and lines beyond its end', () => {
  const leak = { line: 2, kind: 'leak', number: 1, bytes: 8 } as const;
  const lines = linesOf([row(2, 8, 9), row(5, 1, 1)], [leak], 'a\nb\n\n');
  expect(lines.map(({ number, text, live }) => [number, text, live])).toEqual([
    [1, 'a', undefined],
    [2, 'b', 8],
    [3, '', undefined],
    [5, null, 1],
  ]);
  expect(lines.map(({ findings }) => findings)).toEqual([[], [leak], [], []]);
  // Without a text, only lines with memory or findings.
  expect(linesOf([row(2, 8, 9)], [{ ...leak, line: 9 }], null).map(({ number }) => number)).toEqual([2, 9]);
  expect(linesOf([], [], 'x'.repeat(5000))[0]!.text).toHaveLength(1000);
});

test('the hottest line has most live bytes, or else most allocated bytes', () => {
  const numbers = (rows: Row[]) => hotLines(linesOf(rows, [], 'a\nb\nc')).map(({ number }) => number);
  expect(numbers([row(1, 5, 100), row(2, 0, 200), row(3, 9, 9)])).toEqual([3, 1]);
  expect(numbers([row(1, 0, 100), row(2, 0, 200), row(3, 0, 0)])).toEqual([2, 1]);
  expect(numbers([])).toEqual([]);
});
