import { signal } from '@preact/signals';

/** What went wrong last, for people; null: nothing. */
export const trouble = signal<string | null>(null);
