// The help of the search box: examples that run when clicked, and the saved searches.

import { FIELD_MEANINGS } from '../search/complete';
import { FIELD_NAMES } from '../search/language';
import { forgetSearch, saveSearch, savedSearches } from '../state/search';

/** Example queries and their meanings. */
const EXAMPLES: [query: string, meaning: string][] = [
  ['forward', 'a file, line or function anywhere in the stack'],
  ['"two words"', 'text with spaces'],
  ['/att.*(q|k)/', 'a pattern'],
  ['>=10MiB <1GiB', 'sizes; 512MiB is within half a percent'],
  ['category:gradient', 'the category; category!=gradient is everything else'],
  ['lived:>100ms', 'how long it was live; lived:>100 counts events'],
  ['freed:never allocated:>1200', 'when it was freed and allocated, by event'],
  ['step:2 phase:backward', 'the step and its phase in which it was allocated; region:name for annotated regions'],
  ['0x7f3a00200000', 'allocations at this address; also b7f3a00200000_0, as in memory_viz'],
  ['(conv or linear) not step:1', 'combinations; || && ! mean the same'],
];

export function SearchHelp({ text, run }: { text: string; run: (query: string) => void }) {
  const saved = savedSearches.value;
  const isNew = text.trim() !== '' && !saved.includes(text);
  return (
    <>
      {(isNew || saved.length > 0) && (
        <section aria-label="Saved searches">
          <h3>Saved searches</h3>
          <ul class="search-saved">
            {isNew && (
              <li>
                <button type="button" class="button" onClick={() => saveSearch(text)}>
                  Save this search
                </button>
              </li>
            )}
            {saved.map((one) => (
              <li key={one}>
                <button type="button" class="link-button" onClick={() => run(one)}>
                  <code>{one}</code>
                </button>
                <button
                  type="button"
                  class="link-button"
                  aria-label={`Remove the saved search ${one}`}
                  title="Remove"
                  onClick={() => forgetSearch(one)}
                >
                  ×
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section aria-label="Examples">
        <h3>Examples</h3>
        <dl>
          {EXAMPLES.map(([query, meaning]) => (
            <div key={query}>
              <dt>
                <button type="button" class="link-button" onClick={() => run(query)}>
                  <code>{query}</code>
                </button>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <p class="quiet">All words must match. Enter selects the largest match, then the next.</p>
        <p class="quiet">
          Fields:{' '}
          {FIELD_NAMES.map((name) => (
            <>
              <span key={name} title={FIELD_MEANINGS[name]}>
                {name}:
              </span>{' '}
            </>
          ))}
        </p>
      </section>
    </>
  );
}
