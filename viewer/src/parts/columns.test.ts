import { expect, test } from 'vitest';
import { bytesColumn, countColumn, sorted, textColumn } from './columns';

interface Row {
  name: string;
  n: number | null;
}
const rows: Row[] = [{ name: 'b10', n: 2 }, { name: 'b9', n: null }, { name: 'a', n: 3 }];

test('sorting keeps what has no value last', () => {
  const n = countColumn<Row>('n', 'N', (r) => r.n);
  expect(sorted(rows, n, true).map((r) => r.n)).toEqual([3, 2, null]);
  expect(sorted(rows, n, false).map((r) => r.n)).toEqual([2, 3, null]);
});

test('text sorts by the numbers in it', () => {
  const name = textColumn<Row>('name', 'Name', (r) => r.name);
  expect(sorted(rows, name, false).map((r) => r.name)).toEqual(['a', 'b9', 'b10']);
});

test('a cell of bytes has a unit, its title every digit', () => {
  const column = bytesColumn<number>('bytes', 'Bytes', (n) => n, 4096);
  expect([column.text(2048), column.exact(2048), column.value(2048), column.bar!(2048)]).toEqual([
    '2.00 KiB', '2,048 bytes', 2048, 0.5,
  ]);
});
