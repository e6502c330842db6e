import type { TargetedKeyboardEvent } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { stepToMatch, found, matchPosition, query, unclear as reasons } from '../search/found';
import { search } from '../state/search';
import { bytes, count } from '../text/units';
import { SEARCH_ID, focusTimeline } from './keys';

/** Example queries and their meanings, for the help of the box. */
const FORMS: [string, string][] = [
  ['attention', 'a file, line or function anywhere in the stack'],
  ['"two words"', 'text with spaces; /att.*(q|k)/ is a pattern'],
  ['file:loss.py', 'only files; function:forward, line:train.py:31 likewise'],
  ['0x7f3a00200000', 'allocations at this address; also as in memory_viz: b7f3a00200000_0'],
  ['>=10MiB <1GiB', 'sizes; 512MiB within half a percent'],
  ['category:gradient', 'category of the memory'],
  ['step:2 region:backward', 'when it was allocated; also allocated:>1200, freed:never'],
  ['pool:1.0', 'also pool:default, stream:0x3, layer:attn'],
  ['(a OR b) -c', 'a or b, but not c'],
];

/** Milliseconds without typing before the search begins. */
const REST_MS = 120;

export function SearchBox() {
  /** Typed text that is not yet searched, and the query that it replaces. If the query changes meanwhile, the new query wins. */
  const [typed, setTyped] = useState<{ text: string; over: string } | null>(null);
  const text = typed?.over === search.value ? typed.text : search.value;
  const [focused, setFocused] = useState(false);
  const rest = useRef<ReturnType<typeof setTimeout>>(undefined);
  const say = (now: string, over: string) => {
    clearTimeout(rest.current);
    if (search.value === over) search.value = now;
    setTyped(null);
  };
  const type = (now: string) => {
    const over = search.value;
    clearTimeout(rest.current);
    rest.current = setTimeout(() => say(now, over), REST_MS);
    setTyped({ text: now, over });
  };

  const keys = (e: TargetedKeyboardEvent<HTMLInputElement>) => {
    const box = e.currentTarget;
    if (e.key === 'Enter') {
      say(box.value, search.value);
      stepToMatch(e.shiftKey ? -1 : 1);
    } else if (e.key === 'Escape') {
      // The search stays; with the timeline focused, the same key clears it.
      say(box.value, search.value);
      focusTimeline();
    } else return;
    e.preventDefault();
  };

  const unclear = reasons.value;
  return (
    <search class="search">
      <label class="visually-hidden" for={SEARCH_ID}>
        Search allocations
      </label>
      <input
        id={SEARCH_ID}
        type="search"
        value={text}
        placeholder="Search: function, file, 0x…, 512MiB, freed:never"
        autocomplete="off"
        spellcheck={false}
        aria-describedby="search-result"
        onInput={(e) => type(e.currentTarget.value)}
        onKeyDown={keys}
        onFocus={() => setFocused(true)}
        onBlur={(e) => {
          // A following action, such as a click on the legend, builds on the typed text.
          say(e.currentTarget.value, typed?.over ?? search.value);
          setFocused(false);
        }}
      />
      <span id="search-result" class="search-result" role="status">
        <Result />
      </span>
      {focused && (text === '' || unclear.length > 0) && (
        <div class="search-help" role="note">
          {unclear.map((reason) => (
            <p key={reason} class="search-unclear">
              {reason}
            </p>
          ))}
          <dl>
            {FORMS.map(([form, meaning]) => (
              <div key={form}>
                <dt>{form}</dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
          <p class="quiet">All words must match. Enter selects the largest match, then the next.</p>
        </div>
      )}
    </search>
  );
}

function Result() {
  const unclear = reasons.value;
  const all = found.value;
  if (query.value && !all) return <>searching</>;
  if (!all || all.is_empty) return unclear.length > 0 ? <span class="search-unclear">not understood</span> : null;
  const at = matchPosition.value;
  const which = at === null ? '' : `${count(at + 1)} of `;
  return (
    <span
      data-matches={all.count}
      data-bytes={all.bytes}
      title={`${count(all.count)} allocations, ${count(all.bytes)} bytes in total over the recording`}
    >
      {which}
      {count(all.count)} {all.count === 1 ? 'match' : 'matches'}, {bytes(all.bytes)} in total
      {unclear.length > 0 && <span class="search-unclear">, partly understood</span>}
    </span>
  );
}
