import { expect, test } from 'vitest';
import { NONE, type FrameField, type LifetimeUnit, type Query, type SizeSign, type TagField } from '../source/source';
import { parse } from './language';

const text = (sought: string, field: FrameField = 'any'): Query => ({
  is: 'frame',
  field,
  sought: { text: sought, is_pattern: false },
});
const pattern = (sought: string): Query => ({ is: 'frame', field: 'any', sought: { text: sought, is_pattern: true } });
const tag = (field: TagField, sought: string): Query => ({ is: 'tag', field, sought: { text: sought, is_pattern: false } });
const not = (of: Query): Query => ({ is: 'not', of });
const all = (...of: Query[]): Query => ({ is: 'all', of });
const any = (...of: Query[]): Query => ({ is: 'any', of });
const size = (sign: SizeSign, of: string): Query => ({ is: 'size', sign, size: of });
const category = (sought: string): Query => ({ is: 'category', sought: { text: sought, is_pattern: false } });
const lived = (unit: LifetimeUnit, from: number, to: number | null): Query => ({ is: 'lived', unit, from, to });
const allocated = (...spans: [number, number][]): Query => ({ is: 'allocated', spans });
const freed = (...spans: [number, number][]): Query => ({ is: 'freed', spans });

const understood: [string, Query | null][] = [
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
  ['"or" "not" "and"', all(text('or'), text('not'), text('and'))],
  ['"a OR b"', text('a or b')],
  // OR, NOT, parentheses.
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
  ['->=1KiB', not(size('at_least', '1KiB'))],
  // Both spellings of operators, in any letter case.
  ['a or b', any(text('a'), text('b'))],
  ['a || b', any(text('a'), text('b'))],
  ['a And b', all(text('a'), text('b'))],
  ['a && b', all(text('a'), text('b'))],
  ['not a', not(text('a'))],
  ['!a', not(text('a'))],
  ['!(a or b) c', all(not(any(text('a'), text('b'))), text('c'))],
  ['operator||', text('operator||')],
  ['nota order', all(text('nota'), text('order'))],
  // A field takes a colon or an equals sign.
  ['category=activation', category('activation')],
  ['CATEGORY=activation', category('activation')],
  ['category="optimizer state"', category('optimizer state')],
  ['category!=activation', not(category('activation'))],
  ['-category=activation', not(category('activation'))],
  ['file=train.py', text('train.py', 'file')],
  ['step>=2', { is: 'step', from: 2, to: null }],
  ['allocated>1200', allocated([1202, NONE - 1])],
  ['operator==', text('operator==')],
  ['operator=', text('operator=')],
  ['vector<int>', text('vector<int>')],
  ['size:>=10MiB', size('at_least', '10mib')],
  ['size>=10MiB', size('at_least', '10mib')],
  ['size:512MiB', size('about', '512mib')],
  ['size > 10 MiB a', all(size('above', '10 mib'), text('a'))],
  // Lifetimes.
  ['lived:>100ms', lived('us', 100_001, null)],
  ['lived>100ms', lived('us', 100_001, null)],
  ['lived > 1.5 s', lived('us', 1_500_001, null)],
  ['lived:>=2min', lived('us', 120e6, null)],
  ['lived:<1ms', lived('us', 0, 999)],
  ['lived:10ms..1s', lived('us', 10_000, 1e6)],
  ['lived:5', lived('events', 5, 5)],
  ['lived:>1000', lived('events', 1001, null)],
  ['lived:<=20 events', lived('events', 0, 20)],
  // Patterns.
  ['/att.*(q|k)/', pattern('att.*(q|k)')],
  ['/a b\\/c/ d', all(pattern('a b\\/c'), text('d'))],
  ['(/a/ OR /b/)', any(pattern('a'), pattern('b'))],
  ['category:/^grad/', { is: 'category', sought: { text: '^grad', is_pattern: true } }],
  ['/(a+)+$/', pattern('(a+)+$')],
  // Sizes.
  ['>=10MiB', size('at_least', '10MiB')],
  ['>= 2 KiB', size('at_least', '2 KiB')],
  ['<1GiB', size('below', '1GiB')],
  ['<=1k', size('at_most', '1k')],
  ['>24G', size('above', '24G')],
  ['>=10MiB<1GiB', all(size('at_least', '10MiB'), size('below', '1GiB'))],
  ['512MiB', size('about', '512MiB')],
  ['512.00 MiB', size('about', '512.00 MiB')],
  ['=512MiB', size('about', '512MiB')],
  ['= 1000', size('about', '1000')],
  ['(1KiB OR 2KiB)', any(size('about', '1KiB'), size('about', '2KiB'))],
  // The engine reports its errors.
  ['>=5parsecs', size('at_least', '5parsecs')],
  ['7b', text('7b')],
  ['512m', text('512m')],
  ['512', text('512')],
  // Fields with numbers.
  ['step:2', { is: 'step', from: 2, to: 2 }],
  ['phase:backward', { is: 'phase', sought: { text: 'backward', is_pattern: false } }],
  ['phase:"zero grad"', { is: 'phase', sought: { text: 'zero grad', is_pattern: false } }],
  ['step:2..4', { is: 'step', from: 2, to: 4 }],
  ['step:>=2', { is: 'step', from: 2, to: null }],
  // The moment after event n is n + 1.
  ['allocated:>1200', allocated([1202, NONE - 1])],
  ['allocated:7', allocated([8, 8])],
  ['allocated:<=7', allocated([1, 8])],
  ['allocated:before', allocated([0, 0])],
  ['freed:<7', freed([1, 7])],
  ['freed:<0', freed()],
  ['freed:never', freed([NONE, NONE])],
  [`freed:>${'9'.repeat(300)}`, freed([NONE - 1, NONE - 1])],
  ['stream:0x3', tag('stream', '0x3')],
  ['pool:"private pool (1, 0)"', tag('pool', 'private pool (1, 0)')],
  ['leak:2', { is: 'leak', leak: 1 }],
  ['idle:1', { is: 'idle', idle: 0 }],
  ['region:"backward pass"', { is: 'region', sought: { text: 'backward pass', is_pattern: false } }],
  // Addresses.
  ['0x7f10', { is: 'address', address: 0x7f10, version: null }],
];
test.each(understood)('%s', (typed, query) => {
  expect(parse(typed)).toEqual({ query, unclear: [] });
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
  expect(parse(typed)).toEqual({ query: { is: 'address', address: 0x7f064c000000, version }, unclear: [] });
});

test.each(['beef_1', 'b_0', 'bf16_2', 's1_0', 'bdeadbeef', 'forward_7f064c000000_0'])('%s is a name', (typed) => {
  expect(parse(typed).query).toEqual(text(typed));
});

test.each([
  ['>=much', 'a size is'],
  ['>', 'a size is'],
  ['>= much', 'a size is'],
  ['0xzz', 'not an address'],
  ['0x10_1', 'not an address'],
  ['stream:x', 'a number'],
  ['pool:7', 'two numbers'],
  ['file:', 'needs a value'],
  ['step:last', 'a number'],
  ['phase:sideways', 'there is no such phase'],
  ['freed:soon', 'freed:never'],
  ['allocated:1..', 'allocated:10..20'],
  ['foo:bar', 'there is no field foo; fields are file, function, line, category'],
  ['colour=red', 'there is no field colour'],
  ['category:activaton', 'there is no such category; categories are parameter'],
  ['lived:100ms', 'lived:>100ms'],
  ['lived:>3parsecs', 'lived:>100ms'],
  ['constructor:x', 'there is no field'],
  ['__proto__:x', 'there is no field'],
  ['a '.repeat(300), 'at most 200 words'],
  ['('.repeat(5000), 'at most 4096 characters'],
  ['(a', 'not closed'],
  ['OR a', 'both sides'],
  ['a OR', 'both sides'],
  ['a OR OR b', 'both sides'],
  ['NOT', 'a word after it'],
  [`${'('.repeat(40)}a${')'.repeat(40)}`, 'at most 12 deep'],
])('%s is unclear', (typed, reason) => {
  const { unclear } = parse(typed);
  expect(unclear).toHaveLength(1);
  expect(unclear[0]!.why).toContain(reason);
});

test('understood terms apply beside misunderstood ones', () => {
  expect(parse('a foo:b OR c').query).toEqual(any(text('a'), text('c')));
  expect(parse('NOT >=x b').query).toEqual(text('b'));
});

test('the part of the text that was not understood is marked', () => {
  const marked = (typed: string) => parse(typed).unclear.map(({ from, to }) => typed.slice(from, to));
  expect(marked('layer2 colour:red  a')).toEqual(['colour:red']);
  expect(marked('a >=much b lived:soon')).toEqual(['>=much', 'lived:soon']);
  expect(marked('a or')).toEqual(['or']);
  expect(marked('(a')).toEqual(['(']);
  expect(marked('a not')).toEqual(['not']);
});
