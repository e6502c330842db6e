// Stacks and frames of a file, read from its names.

import { entryAt, numberAt } from '../numbers/at';
import { NONE, type Names } from '../source/source';

export const NO_STACK = '(no stack)';

/** Returns the frames of a stack, innermost first. */
export function framesOf(names: Names, stack: number): Uint32Array {
  if (stack === NONE || stack >= names.ends.length) return names.frames.subarray(0, 0);
  return names.frames.subarray(stack === 0 ? 0 : names.ends[stack - 1], names.ends[stack]);
}

/** Returns the frame that names a stack, usually the user's innermost; NONE if there is none. */
export function ownFrame(names: Names, stack: number): number {
  return stack === NONE || stack >= names.own.length ? NONE : numberAt(names.own, stack);
}

/** Returns the label of the frame that names a stack; empty while the names are being read. */
export function ownLabel(names: Names | null, stack: number): string {
  if (!names) return '';
  const own = ownFrame(names, stack);
  return own === NONE ? NO_STACK : entryAt(names.label, own);
}

const isUser = (names: Names, frame: number) => names.code[frame] === 'user';

export const isNative = (names: Names, frame: number) => names.code[frame] === 'native';

/** Whether a file name is usable; compiled code without debug information has none. */
export const isPlace = (file: string) => file !== '' && file !== '??';

/** Returns the user's frames, innermost first; for a stack without any, the frame that names it. */
export function readableFrames(names: Names, stack: number): number[] {
  const user = [...framesOf(names, stack)].filter((f) => isUser(names, f));
  if (user.length > 0) return user;
  const own = ownFrame(names, stack);
  return own === NONE ? [] : [own];
}

/** Returns the short path of a frame's file: its label without line and function. */
export function shortFile(names: Names, frame: number): string {
  const label = names.label[frame] ?? '';
  const rest = `:${names.line[frame]} ${names.function[frame]}`;
  return label.endsWith(rest) ? label.slice(0, -rest.length) : names.file[frame] || label;
}
