// Files that expand far beyond their size, as in crates/vramscope-trace/tests/formats/hostile.rs, and truncated files.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { example } from './command';

const MIB = 1 << 20;

/** One byte per character. */
const plain = (text: string) => Buffer.from(text, 'latin1');

/** A pickle of a list: numbered keys in the memo, then many references to them, in batches as `pickle` writes them. */
function many(key: string, dictionary: string, times: number): Buffer {
  const batch = `${dictionary.repeat(1000)}e(`;
  return plain(`\x80\x04](\x8c${String.fromCharCode(key.length)}${key}\x94${batch.repeat(times / 1000)}e.`);
}

/** `start` and then this many mebibytes of `byte`, as equal gzip members. */
function packed(start: string, byte: string, mebibytes: number): Buffer {
  const member = gzipSync(Buffer.alloc(MIB, byte), { level: 9 });
  return Buffer.concat([gzipSync(plain(start)), ...Array.from({ length: mebibytes }, () => member)]);
}

function gaps(): Buffer {
  const memo = Buffer.alloc(5 * 2_000_000, 'r');
  for (let i = 0; i < 2_000_000; i += 1) memo.writeUInt32LE(2 * i + 1, 5 * i + 1);
  return Buffer.concat([plain('\x80\x04N'), memo]);
}

const doubled = Array.from({ length: 30 }, (_, i) => `]\x94(h${String.fromCharCode(i).repeat(1)}h${String.fromCharCode(i)}e`);
const pickle = readFileSync(example('leak.pickle'));
const zst = readFileSync(example('training.pickle.zst'));

/** The files by description, with the reason for which each is refused. */
export const BOMBS: [string, Buffer, RegExp][] = [
  ['settings', many('expandable_segments', '}(h\0\x88u', 300_000), /8 times as much memory/],
  ['roots', many('segments', '}(h\0Nu', 700_000), /8 times as much memory/],
  ['segments', many('total_size', '}(h\0K\0u', 300_000), /8 times as much memory/],
  ['divisions', many('1', '}(h\0K\0u', 500_000), /8 times as much memory/],
  ['lists inside each other', many('x', `h\0${'\x85'.repeat(1000)}`, 4000), /8 times as much memory/],
  ['one value in the memo again and again', many('x', `K\0${'\x94'.repeat(1000)}`, 6000), /8 times as much memory/],
  ['a memo with gaps', gaps(), /8 times as much memory/],
  ['lists that hold each other', plain(`\x80\x04]\x94${doubled.join('')}.`), /a list, not a memory snapshot/],
  ['a list that never ends', plain(`\x80\x04](${'N'.repeat(1_000_000)}`), /a list or dictionary that never closes/],
  ['nested deep', plain(`\x80\x04${']('.repeat(100_000)}${'e'.repeat(100_000)}.`), /: .*nested/],
  ['JSON nested deep', plain('['.repeat(100_000) + ']'.repeat(100_000)), /recursion limit/],
  ['a length of 2 to the 60', plain('\x80\x04\x8d\0\0\0\0\0\0\0\x10x'), /length|long|bytes/],
  ['a string', packed('{"segments": ["', 'x', 900), /of more than 16777216 bytes/],
  ['space', packed('{"segments": [], "a": [', ' ', 900), /of more than 16777216 bytes/],
  ['zeros', packed('', '\0', 900), /not a memory snapshot/],
  ['nothing', Buffer.alloc(0), /empty/],
  ['a pickle cut in the middle', pickle.subarray(0, pickle.length / 2), /truncated/],
  ['a pickle without its end', pickle.subarray(0, pickle.length - 1), /truncated/],
  ['zstd cut in the middle', zst.subarray(0, zst.length / 2), /zstd data/],
];
