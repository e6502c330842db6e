import { expect, test } from 'vitest';
import { addressColumn, bytesColumn, countColumn, sorted, textColumn } from './columns';

interface Row {
  name: string;
  n: number | null;
}
const rows: Row[] = [
  { name: 'b10', n: 2 },
  { name: 'b9', n: null },
  { name: 'a', n: 3 },
];

test('sorting puts rows without a value last', () => {
  const n = countColumn<Row>('n', 'N', (r) => r.n);
  expect(sorted(rows, n, true).map((r) => r.n)).toEqual([3, 2, null]);
  expect(sorted(rows, n, false).map((r) => r.n)).toEqual([2, 3, null]);
});

test('text sorts by the numbers in it', () => {
  const name = textColumn<Row>('name', 'Name', (r) => r.name);
  expect(sorted(rows, name, false).map((r) => r.name)).toEqual(['a', 'b9', 'b10']);
});

test('a cell of bytes has a unit, its title all digits', () => {
  const column = bytesColumn<number>('bytes', 'Bytes', (n) => n, 4096);
  expect([column.text(2048), column.exact(2048), column.value(2048), column.bar!(2048)]).toEqual([
    '2.00 KiB',
    '2,048 bytes',
    2048,
    0.5,
  ]);
});

test('addresses sort as numbers and are saved as displayed', () => {
  const column = addressColumn<number>('address', 'Address', (n) => n);
  const addresses = [0x7f9a00000, 0x1000, 0x7f1000000];
  expect(sorted(addresses, column, false)).toEqual([0x1000, 0x7f1000000, 0x7f9a00000]);
  expect(sorted(addresses, column, true).map(column.value)).toEqual(['0x7f9a00000', '0x7f1000000', '0x1000']);
});

test('sorting reads a value once per row', () => {
  let read = 0;
  const column = textColumn<number>('text', 'Text', (n) => {
    read += 1;
    return `line ${(n * 7919) % 1000}`;
  });
  const all = sorted(
    Array.from({ length: 1000 }, (_, i) => i),
    column,
    false,
  );
  expect([read, ((all[1] ?? NaN) * 7919) % 1000]).toEqual([1000, 1]);
});
