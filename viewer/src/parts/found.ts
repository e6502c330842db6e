// What the search box looks for, in labels.

import { parsed } from '../search/found';

/** Whether a label has one of the words looked for in frames; null where none is. Reads a signal. */
export function labelMatcher(): ((label: string) => boolean) | null {
  const texts = parsed.value.terms.flatMap((t) => (t.kind === 'frame' ? [t.text] : []));
  if (texts.length === 0) return null;
  return (label) => {
    const lower = label.toLowerCase();
    return texts.some((t) => lower.includes(t));
  };
}
