/** Returns the message of a thrown value, for the user. */
export const reason = (e: unknown): string => (e instanceof Error ? e.message : String(e));
