// A user with a task: every click, choice and typed line is a step, and a task has a greatest number of them.

import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Open, OpenOptions } from './page';

export interface User {
  page: Page;
  /** Takes one step. */
  step: (act: Promise<unknown>) => Promise<void>;
}

/** Opens an address for a user who takes at most this many steps. */
export async function user(open: Open, most: number, address: string, options?: OpenOptions): Promise<User> {
  const page = await open(address, options);
  let taken = 0;
  const step = async (act: Promise<unknown>) => {
    taken += 1;
    expect(taken).toBeLessThanOrEqual(most);
    await act;
  };
  return { page, step };
}

/** Chooses a view, which is a step. */
export const tab = (page: Page, name: string) => page.getByRole('tab', { name }).click();
