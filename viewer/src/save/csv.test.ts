import { expect, test } from 'vitest';
import { csv, csvCell, json } from './csv';

test('cells are quoted only when necessary', () => {
  expect(csvCell('plain text')).toBe('plain text');
  expect(csvCell('a,b')).toBe('"a,b"');
  expect(csvCell('say "x"')).toBe('"say ""x"""');
  expect(csvCell('two\nlines')).toBe('"two\nlines"');
  expect(csvCell(null)).toBe('');
  expect(csvCell(12_884_901_888)).toBe('12884901888');
});

test('text cannot become a formula, negative numbers stay numbers', () => {
  expect(csvCell('=HYPERLINK("http://x")')).toBe('"\'=HYPERLINK(""http://x"")"');
  expect(csvCell('@cmd')).toBe("'@cmd");
  expect(csvCell(-5)).toBe('-5');
});

test('rows end with CRLF, the header first', () => {
  expect(
    csv({
      columns: ['line', 'bytes'],
      rows: [
        ['a.py:1 f', 3],
        ['b.py:2 g', null],
      ],
    }),
  ).toBe('line,bytes\r\na.py:1 f,3\r\nb.py:2 g,\r\n');
});

test('JSON has one object per row', () => {
  expect(JSON.parse(json({ columns: ['line', 'bytes'], rows: [['a', 3]] }))).toEqual([{ line: 'a', bytes: 3 }]);
});
