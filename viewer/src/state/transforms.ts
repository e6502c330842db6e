// The transforms of the call tree. Those that keep only some allocations are also part of the search (search/found.ts).

import { batch } from '@preact/signals';
import { NONE, type CallTransform, type FramesOf, type Names } from '../source/source';
import { CALLS, callZoom, callsOf } from './grouping';
import { inAddress, type AddressForm } from './in-address';
import { trouble } from './trouble';

/** The most transforms, the most steps of a path, and the most characters of all texts in the address. */
const MOST = 64;
const MOST_STEPS = 1001;
const LONGEST = 100_000;

const isText = (value: unknown): value is string => typeof value === 'string';
const areTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

function framesOf(value: unknown): FramesOf | null {
  const { of, name, file } = (value ?? {}) as Record<string, unknown>;
  if (!isText(name)) return null;
  if (of === 'function') return isText(file) ? { of, name, file } : null;
  return of === 'file' || of === 'library' ? { of, name } : null;
}

/** Returns a transform from the address; null if it is not valid. */
function transformOf(value: unknown): CallTransform | null {
  const one = (value ?? {}) as Record<string, unknown>;
  switch (one['does']) {
    case 'focus':
    case 'drop':
    case 'merge':
    case 'collapse':
    case 'collapse_recursion': {
      const frames = framesOf(one['frames']);
      return frames && { does: one['does'], frames };
    }
    case 'collapse_libraries':
      return areTexts(one['expanded']) ? { does: 'collapse_libraries', expanded: one['expanded'] } : null;
    case 'focus_path': {
      const { calls, inverted, path } = one;
      const of = CALLS.find((known) => known === calls);
      const isPath = areTexts(path) && path.length > 0 && path.length <= MOST_STEPS;
      return of && typeof inverted === 'boolean' && isPath ? { does: 'focus_path', calls: of, inverted, path } : null;
    }
  }
  return null;
}

/** Transforms in the address, as JSON. */
export const transformsForm: AddressForm<readonly CallTransform[]> = {
  read(text) {
    if (text.length > LONGEST) return undefined;
    try {
      const all: unknown = JSON.parse(text);
      if (!Array.isArray(all)) return undefined;
      return all.slice(0, MOST).flatMap((one) => transformOf(one) ?? []);
    } catch {
      return undefined;
    }
  },
  write: (all) => JSON.stringify(all),
};

const NO_TRANSFORMS: readonly CallTransform[] = [];

/** The transforms, in the order in which they apply. */
export const transforms = inAddress<readonly CallTransform[], readonly CallTransform[]>(
  'transforms',
  transformsForm,
  NO_TRANSFORMS,
);

const KEEPING: readonly CallTransform['does'][] = ['focus', 'focus_path', 'drop'];

/** Returns the transforms that decide which allocations are kept: up to the last that keeps only some. */
export const keepingTransforms = (all: readonly CallTransform[]): CallTransform[] =>
  all.slice(0, all.findLastIndex(({ does }) => KEEPING.includes(does)) + 1);

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** Another tree has other nodes to zoom to. */
const set = (all: readonly CallTransform[]) =>
  batch(() => {
    transforms.value = all.length === 0 ? NO_TRANSFORMS : all;
    callZoom.value = null;
  });

export function addTransform(added: CallTransform): void {
  const all = transforms.value;
  if (all.some((one) => same(one, added))) return;
  const text = transformsForm.write([...all, added]);
  if (all.length >= MOST || text.length > LONGEST)
    trouble.value = 'There are too many transforms of the call tree. Remove some first.';
  else set([...all, added]);
}

/** Removes the transform at a position. */
export const removeTransform = (at: number) => set(transforms.value.filter((_, i) => i !== at));
export const removeTransforms = () => set(NO_TRANSFORMS);

const isOfLibraries = (one: CallTransform) => one.does === 'collapse_libraries';

export const librariesCollapsed = (): boolean => transforms.value.some(isOfLibraries);

/** Collapses each library to one frame, or shows their frames again. The user's own frames alone have no libraries. */
export function collapseLibraries(collapsed: boolean): void {
  batch(() => {
    if (!collapsed) set(transforms.value.filter((one) => !isOfLibraries(one)));
    else addTransform({ does: 'collapse_libraries', expanded: [] });
    if (collapsed && callsOf.value === 'own') callsOf.value = 'all';
  });
}

/** The name of frames, as the page shows it. */
export const nameOf = (frames: FramesOf): string =>
  frames.of === 'function' && frames.file !== '' ? `${frames.name} (${frames.file})` : frames.name;

/** Returns the frames that a collapsed node stands for; null if no transform collapses frames of this name. */
export function collapsedFrames(name: string): FramesOf | null {
  const one = transforms.value.find(collapses(name));
  if (one && 'frames' in one) return one.frames;
  return librariesCollapsed() ? { of: 'library', name } : null;
}

/** Whether a transform collapses frames of this name, and no others. */
const collapses = (name: string) => (one: CallTransform) =>
  (one.does === 'collapse' || one.does === 'collapse_recursion') && nameOf(one.frames) === name;

/** Shows the frames of a collapsed node. */
export function expand(name: string): void {
  const all = transforms.value;
  const without = all.filter((one) => !collapses(name)(one));
  const expanded = (one: CallTransform): CallTransform =>
    one.does === 'collapse_libraries' ? { ...one, expanded: [...new Set([...one.expanded, name])] } : one;
  set(without.length < all.length ? without : all.map(expanded));
}

/** Returns what a transform does, in a few words. */
export function transformText(one: CallTransform): string {
  switch (one.does) {
    case 'focus':
      return `Only through ${nameOf(one.frames)}`;
    case 'focus_path':
      return `Only below ${one.path.at(-1)}`;
    case 'drop':
      return `Without ${nameOf(one.frames)}`;
    case 'merge':
      return `${nameOf(one.frames)} merged`;
    case 'collapse':
      return `${nameOf(one.frames)} collapsed`;
    case 'collapse_recursion':
      return `Recursion of ${nameOf(one.frames)} collapsed`;
    case 'collapse_libraries':
      return `Libraries collapsed${one.expanded.length > 0 ? `, except ${one.expanded.join(', ')}` : ''}`;
  }
}

/** Returns the function, the file and the library of a frame, as transforms know them. Null: the frame has none. */
export function framesAt(names: Names, frame: number): Record<'function' | 'file' | 'library', FramesOf | null> {
  const [name, file, library] = [names.short_function[frame] ?? '', names.short_file[frame] ?? '', names.library[frame] ?? null];
  return {
    function: frame === NONE ? null : { of: 'function', name, file },
    file: file === '' ? null : { of: 'file', name: file },
    library: library === null ? null : { of: 'library', name: library },
  };
}

/** Returns the text of a frame as a step of a path. */
export function stepText(names: Names, frame: number): string {
  const [file, name] = [names.short_file[frame] ?? '', names.short_function[frame] ?? ''];
  return file === '' ? name : `${file}:${names.line[frame]} ${name}`;
}
