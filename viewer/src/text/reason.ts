/** The message of whatever was thrown, for the user. */
export const reason = (e: unknown): string => (e instanceof Error ? e.message : String(e));
