import { describe, expect, test } from 'vitest';
import { parse, parseSize, type Term } from './language';

const text = (sought: string, field: 'any' | 'file' | 'function' | 'line' = 'any'): Term => ({
  kind: 'frame',
  field,
  sought: { text: sought, isPattern: false },
});
const pattern = (sought: string): Term => ({ kind: 'frame', field: 'any', sought: { text: sought, isPattern: true } });
const not = (of: Term): Term => ({ kind: 'not', of });
const all = (...of: Term[]): Term => ({ kind: 'all', of });
const any = (...of: Term[]): Term => ({ kind: 'any', of });
const size = (min: number, max: number | null): Term => ({ kind: 'size', min, max });
const MIB = 2 ** 20;

describe('parseSize', () => {
  test.each([
    ['10MiB', 10 * 2 ** 20],
    ['1.5 KiB', 1536],
    ['512mb', 512e6],
    ['7', 7],
    ['2g', 2 ** 31],
  ])('%s', (t, n) => {
    expect(parseSize(t)).toBe(n);
  });
  test.each(['', 'x', '1.2.3', '5 parsecs'])('%s is none', (t) => expect(parseSize(t)).toBeNull());
});

const understood: [string, Term | null][] = [
  ['', null],
  ['  ', null],
  ['""', null],
  ['()', null],
  ['FORWARD', text('forward')],
  ['a b', all(text('a'), text('b'))],
  ['a AND b', all(text('a'), text('b'))],
  ['"two words"', text('two words')],
  ['"py:9 main', text('py:9 main')],
  ['file:"my model.py"', text('my model.py', 'file')],
  ['file:/home/me/a.py', text('/home/me/a.py', 'file')],
  ['line:train.py:31', text('train.py:31', 'line')],
  ['c10::alloc', text('c10::alloc')],
  ['http://host/x', text('http://host/x')],
  ['model.py:12', text('model.py:12')],
  ['operator()', text('operator()')],
  ['f(int)', text('f(int)')],
  ['/home/me', text('/home/me')],
  ['<module>', text('<module>')],
  ['->', text('->')],
  ['a-b', text('a-b')],
  ['or not and', all(text('or'), text('not'), text('and'))],
  ['"a OR b"', text('a or b')],
  // Choices, denials, parentheses.
  ['a OR b', any(text('a'), text('b'))],
  ['a b OR c', any(all(text('a'), text('b')), text('c'))],
  ['a (b OR c)', all(text('a'), any(text('b'), text('c')))],
  ['(f() OR g(int))', any(text('f()'), text('g(int)'))],
  ['((a))', text('a')],
  ['NOT a', not(text('a'))],
  ['-a', not(text('a'))],
  ['NOT -a', text('a')],
  ['-(a OR b) c', all(not(any(text('a'), text('b'))), text('c'))],
  ['-file:x', not(text('x', 'file'))],
  ['-"two words"', not(text('two words'))],
  ['->=1KiB', not(size(1024, null))],
  // Patterns.
  ['/att.*(q|k)/', pattern('att.*(q|k)')],
  ['/a b\\/c/ d', all(pattern('a b\\/c'), text('d'))],
  ['(/a/ OR /b/)', any(pattern('a'), pattern('b'))],
  ['category:/^grad/', { kind: 'category', sought: { text: '^grad', isPattern: true } }],
  // Sizes.
  ['>=10MiB', size(10 * MIB, null)],
  ['>= 2 KiB', size(2048, null)],
  ['<1GiB', size(0, 2 ** 30 - 1)],
  ['<=1k', size(0, 1024)],
  ['>=10MiB<1GiB', all(size(10 * MIB, null), size(0, 2 ** 30 - 1))],
  ['512MiB', size(Math.ceil(512 * MIB * 0.995), Math.floor(512 * MIB * 1.005))],
  ['512.00 MiB', size(Math.ceil(512 * MIB * 0.995), Math.floor(512 * MIB * 1.005))],
  ['=512MiB', size(Math.ceil(512 * MIB * 0.995), Math.floor(512 * MIB * 1.005))],
  ['= 1000', size(995, 1004)],
  ['(1KiB OR 2KiB)', any(size(1019, 1029), size(2038, 2058))],
  ['7b', text('7b')],
  ['512m', text('512m')],
  ['512', text('512')],
  // Fields of numbers.
  ['step:2', { kind: 'step', numbers: [2, 2] }],
  ['step:2..4', { kind: 'step', numbers: [2, 4] }],
  ['freed:never', { kind: 'freed', events: 'never' }],
  ['freed:>1200', { kind: 'freed', events: [1201, Infinity] }],
  ['allocated:<=7', { kind: 'allocated', events: [0, 7] }],
  ['allocated:before', { kind: 'allocated', events: 'before' }],
  ['region:"backward pass"', { kind: 'region', sought: { text: 'backward pass', isPattern: false } }],
  // Addresses.
  ['0x7f10', { kind: 'address', address: 0x7f10, version: null }],
];
test.each(understood)('%s', (typed, term) => {
  expect(parse(typed)).toEqual({ term, unclear: [] });
});

test.each([
  ['b7f064c000000_0', 0],
  ["b'7f064c000000_12'", 12],
  ['B7F064C000000_3', 3],
  ['7f064c000000_1', 1],
  ['0x7f064c000000_2', 2],
  ['s7f064c000000_5', null],
  ["s'7f064c000000_5'", null],
])('%s is an address of memory_viz', (typed, version) => {
  expect(parse(typed)).toEqual({ term: { kind: 'address', address: 0x7f064c000000, version }, unclear: [] });
});

test.each(['beef_1', 'b_0', 'bf16_2', 's1_0', 'bdeadbeef', 'forward_7f064c000000_0'])('%s is a name', (typed) => {
  expect(parse(typed).term).toEqual(text(typed));
});

test.each([
  ['>=much', 'a size is'],
  ['>', 'a size is'],
  ['>= much', 'a size is'],
  ['>=5parsecs', 'a size is'],
  ['>=1constructor', 'a size is'],
  ['0xzz', 'not an address'],
  ['0x10_1', 'not an address'],
  ['stream:x', 'a number'],
  ['pool:7', 'two numbers'],
  ['file:', 'needs a value'],
  ['step:last', 'a number'],
  ['freed:soon', 'freed:never'],
  ['allocated:1..', 'allocated:10..20'],
  ['foo:bar', 'there is no field foo; fields are file, function, line, category'],
  ['constructor:x', 'there is no field'],
  ['__proto__:x', 'there is no field'],
  ['/(/', 'no regular expression'],
  ['file:/[/', 'no regular expression'],
  ['(a', 'not closed'],
  ['OR a', 'both sides'],
  ['a OR', 'both sides'],
  ['a OR OR b', 'both sides'],
  ['NOT', 'something behind it'],
  [`${'('.repeat(40)}a${')'.repeat(40)}`, 'at most 12 deep'],
])('%s is unclear', (typed, reason) => {
  const { unclear } = parse(typed);
  expect(unclear).toHaveLength(1);
  expect(unclear[0]).toContain(reason);
});

test('what is understood holds beside what is not', () => {
  expect(parse('a foo:b OR c').term).toEqual(any(text('a'), text('c')));
  expect(parse('NOT >=x b').term).toEqual(text('b'));
});
