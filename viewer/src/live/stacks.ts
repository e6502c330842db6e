// Reading stacks and frames out of a file's names.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Names } from '../source/source';

export const NO_STACK = '(no stack)';

/** Frames of a stack, innermost first. */
export function framesOf(names: Names, stack: number): Uint32Array {
  if (stack === NONE || stack >= names.ends.length) return names.frames.subarray(0, 0);
  return names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
}

/** The frame that names a stack, or NONE. */
export function ownFrame(names: Names, stack: number): number {
  return stack === NONE || stack >= names.own.length ? NONE : numberAt(names.own, stack);
}

/** What names a stack, in a table: empty while the names are not here. */
export function ownLabel(names: Names | null, stack: number): string {
  if (!names) return '';
  const own = ownFrame(names, stack);
  return own === NONE ? NO_STACK : entryAt(names.label, own);
}

const isUser = (names: Names, frame: number) => names.code[frame] === 'user';

export const isNative = (names: Names, frame: number) => names.code[frame] === 'native';

/** Compiled code without debug information has no place. */
export const isPlace = (file: string) => file !== '' && file !== '??';

/** The frames that people read: the user's; of a stack without any, the one that names it. Innermost first. */
export function readableFrames(names: Names, stack: number): number[] {
  const user = [...framesOf(names, stack)].filter((f) => isUser(names, f));
  if (user.length > 0) return user;
  const own = ownFrame(names, stack);
  return own === NONE ? [] : [own];
}

/** The short path of a frame's file: its label without line and function. */
export function shortFile(names: Names, frame: number): string {
  const label = names.label[frame] ?? '';
  const rest = `:${names.line[frame]} ${names.function[frame]}`;
  return label.endsWith(rest) ? label.slice(0, -rest.length) : names.file[frame] || label;
}

/** Frames through which every call of a torch module goes. */
const WRAPPERS = new Set(['_call_impl', '_wrapped_call_impl']);
const LABELLED = 3;

/**
 * A stack in a line, so that stacks of one line of the user's can be told apart: the innermost frames that are not
 * native, and the one that names it. `activations.py:66 forward ‹ gpt2.py:240 forward ‹ train.py:10 main`.
 */
export function stackLabel(names: Names, stack: number): string {
  const inner = [...framesOf(names, stack)].filter((f) => !isNative(names, f) && !WRAPPERS.has(entryAt(names.function, f)));
  const own = ownFrame(names, stack);
  const shown = inner.slice(0, LABELLED);
  if (own !== NONE && !shown.includes(own)) shown.push(own);
  return shown.map((f) => names.label[f]).join(' ‹ ') || NO_STACK;
}

const texts = new WeakMap<Names, string[]>();

/** All frames of a stack as text: the same of the same stack in any recording. */
export function stackText(names: Names, stack: number): string {
  if (stack === NONE) return '';
  let known = texts.get(names);
  if (!known) texts.set(names, (known = []));
  return (known[stack] ??= Array.from(framesOf(names, stack), (f) => names.label[f] ?? '').join('\n'));
}
