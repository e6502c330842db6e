// Stacks and frames of a file, read from its names.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Names } from '../source/source';

export const NO_STACK = '(no stack)';

/** Frames of a stack, innermost first. */
export function framesOf(names: Names, stack: number): Uint32Array {
  if (stack === NONE || stack >= names.ends.length) return names.frames.subarray(0, 0);
  return names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
}

/** The frame that names a stack: as a rule the user's innermost. NONE where there is none. */
export function ownFrame(names: Names, stack: number): number {
  return stack === NONE || stack >= names.own.length ? NONE : numberAt(names.own, stack);
}

/** The label of the frame that names a stack; empty as long as the names are being read. */
export function ownLabel(names: Names | null, stack: number): string {
  if (!names) return '';
  const own = ownFrame(names, stack);
  return own === NONE ? NO_STACK : entryAt(names.label, own);
}

const isUser = (names: Names, frame: number) => names.code[frame] === 'user';

export const isNative = (names: Names, frame: number) => names.code[frame] === 'native';

/** Whether a file name says something: compiled code without debug information has none. */
export const isPlace = (file: string) => file !== '' && file !== '??';

/** The user's frames, innermost first; of a stack without any, the frame that names it. */
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

/** Functions of PyTorch through which every call of a module goes. */
const WRAPPERS = new Set(['_call_impl', '_wrapped_call_impl']);
/** Frames in the label of a stack. */
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

/** All frames of a stack as one text, which is the same in any recording of the program. */
export function stackText(names: Names, stack: number): string {
  if (stack === NONE) return '';
  let known = texts.get(names);
  if (!known) texts.set(names, (known = []));
  return (known[stack] ??= Array.from(framesOf(names, stack), (f) => names.label[f] ?? '').join('\n'));
}
