/** What went wrong, for people. */
export const reason = (e: unknown): string => (e instanceof Error ? e.message : String(e));
