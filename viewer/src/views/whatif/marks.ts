// Parts of a program that a change can name.

import { bytes } from '../../text/units';

export const GROUPS = [
  { value: 'category', label: 'category' },
  { value: 'layer', label: 'layer' },
  { value: 'line', label: 'line' },
  { value: 'batch', label: 'batch' },
] as const;
export type Group = (typeof GROUPS)[number]['value'];

interface Change {
  value: string;
  label: string;
}

const CHECKPOINT: Change = { value: 'checkpoint', label: 'checkpointed' };
const OFFLOAD: Change = { value: 'offload', label: 'offloaded to the host' };
const FREE: Change = { value: 'free', label: 'freed at the last use' };
const factors = (...all: [factor: number, label: string][]): Change[] =>
  all.map(([factor, label]) => ({ value: `x${factor}`, label }));
const TYPES = factors([0.5, 'half the bytes'], [0.25, 'a quarter of the bytes'], [2, 'twice the bytes']);
const BATCHES = factors([0.5, 'half'], [0.25, 'a quarter'], [2, 'twice'], [4, '4 times'], [8, '8 times']);

/** Returns the changes that may have an effect on a group. */
export function changesOf(by: Group, part: string | null): Change[] {
  if (by === 'batch') return BATCHES;
  if (by !== 'category' || part === 'category:activation') return [CHECKPOINT, OFFLOAD, ...TYPES, FREE];
  return part === 'category:optimizer_state' ? [OFFLOAD, ...TYPES, FREE] : [...TYPES, FREE];
}

/** A part of the program, with the bytes that it has at the peak. */
export interface Part {
  value: string;
  label: string;
}

/** The most parts to choose from. */
const MOST = 100;

/** Returns the parts of a grouping, most bytes first. */
export function partsOf(by: Exclude<Group, 'batch'>, labels: readonly string[], amounts: ArrayLike<number>): Part[] {
  const sums = new Map<string, number>();
  labels.forEach((label, i) => {
    for (const name of namesOf(by, label)) sums.set(name, (sums.get(name) ?? 0) + (amounts[i] ?? 0));
  });
  const sorted = [...sums].filter(([, of]) => of > 0).sort(([, a], [, b]) => b - a);
  return sorted.slice(0, MOST).map(([name, of]) => ({ value: `${by}:${name}`, label: `${name}, ${bytes(of)}` }));
}

/** Returns the names of the parts that a group of the tables belongs to; none if a change cannot name it. */
function namesOf(by: Exclude<Group, 'batch'>, label: string): string[] {
  if (by === 'line') {
    const place = /^(\S.*?:\d+)(?: |$)/.exec(label)?.[1];
    return place === undefined ? [] : [place];
  }
  if (label === '' || label.startsWith('(') || /[;=]/.test(label)) return [];
  if (by === 'category') return [label.replaceAll(' ', '_')];
  // A module, and each module around it. Equal modules have one name: `h.*.mlp`.
  const path = label.split('.').map((part) => (/^\d+$/.test(part) ? '*' : part));
  return path.map((_, depth) => path.slice(0, depth + 1).join('.'));
}
