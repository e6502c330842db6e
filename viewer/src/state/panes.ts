// The sizes of panes, which the browser keeps for all pages.

import { inBrowser } from './in-browser';

/** A pane's size in CSS pixels, and whether it is collapsed. */
export interface PaneSize {
  size: number;
  isCollapsed: boolean;
}

function read(value: unknown): Record<string, PaneSize> | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const isPane = (one: unknown): one is PaneSize => {
    const { size, isCollapsed } = (one ?? {}) as Partial<PaneSize>;
    return typeof size === 'number' && size >= 0 && size < 1e5 && typeof isCollapsed === 'boolean';
  };
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, PaneSize] => isPane(entry[1])));
}

const sizes = inBrowser<Record<string, PaneSize>>('panes', read, {});

/** Returns the size that the user gave a pane; undefined if it has its default size. */
export const paneSize = (name: string): PaneSize | undefined => sizes.value[name];

export function setPane(name: string, to: PaneSize | null): void {
  const { [name]: _, ...others } = sizes.value;
  sizes.value = to === null ? others : { ...others, [name]: to };
}
