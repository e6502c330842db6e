import { useEffect, useRef, useState } from 'preact/hooks';
import { stepToMatch, found, parsed, matchPosition, query } from '../search/found';
import { search } from '../state/search';
import { bytes, count } from '../text/units';
import { SEARCH_ID } from './keys';

/** Examples of queries and what they find, as the help of the box shows them. */
const FORMS: [string, string][] = [
  ['attention', 'a file, line or function anywhere in the stack'],
  ['"two words"', 'the same with spaces'],
  ['file:loss.py', 'only files; function:forward only functions'],
  ['0x7f3a00200000', 'what covers this address; also as memory_viz writes it: b7f3a00200000_0'],
  ['>=10MiB <1GiB', 'sizes'],
  ['category:gradient', 'what memory is for; -category:gradient all but that'],
  ['stream:0x3', 'also pool:1.0, pool:default, layer:attn'],
];

/** Milliseconds without typing before the search begins. */
const REST_MS = 120;

export function SearchBox() {
  const [text, setText] = useState(search.value);
  const [focused, setFocused] = useState(false);
  /** The query that the box itself has set last. A change by others, such as the legend, is put into the box. */
  const said = useRef(search.value);
  const say = () => (said.current = search.value = text);
  useEffect(() => {
    if (search.value !== said.current) setText((said.current = search.value));
  }, [search.value]);
  useEffect(() => {
    const timer = setTimeout(say, REST_MS);
    return () => clearTimeout(timer);
  }, [text]);

  const keys = (e: KeyboardEvent) => {
    if (e.key === 'Enter') {
      say();
      stepToMatch(e.shiftKey ? -1 : 1);
    } else if (e.key === 'Escape') {
      if (text) setText('');
      else (e.currentTarget as HTMLElement).blur();
    } else return;
    e.preventDefault();
  };

  const { unclear } = parsed.value;
  return (
    <search class="search">
      <label class="visually-hidden" for={SEARCH_ID}>
        Search allocations
      </label>
      <input
        id={SEARCH_ID}
        type="search"
        value={text}
        placeholder="Search: function, file, 0x…, >=10MiB, stream:0x3"
        autocomplete="off"
        spellcheck={false}
        aria-describedby="search-result"
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={keys}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
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
          <p class="quiet">Words beside each other must all hold. Enter selects the largest match, then the next.</p>
        </div>
      )}
    </search>
  );
}

function Result() {
  const { unclear } = parsed.value;
  if (!query.value) return unclear.length > 0 ? <span class="search-unclear">not understood</span> : null;
  const all = found.value;
  if (!all) return <>searching</>;
  const at = matchPosition.value;
  const which = at === null ? '' : `${count(at + 1)} of `;
  return (
    <span
      data-matches={all.count}
      data-bytes={all.bytes}
      title={`${count(all.count)} allocations, ${count(all.bytes)} bytes in sum over the recording`}
    >
      {which}
      {count(all.count)} {all.count === 1 ? 'match' : 'matches'}, {bytes(all.bytes)} in sum
      {unclear.length > 0 && <span class="search-unclear">, partly understood</span>}
    </span>
  );
}
