import { signal } from '@preact/signals';

/** The last error, as a sentence for the user; null: none. */
export const trouble = signal<string | null>(null);
