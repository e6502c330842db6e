// The search box: its text with the misunderstood words marked, the result, and a panel with completions or help.

import type { TargetedEvent, TargetedKeyboardEvent } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Check } from '../parts/controls';
import { completed, completionsAt, type Completion, type Completions } from '../search/complete';
import { found, matchPosition, query, stepToMatch, unclear as reasons } from '../search/found';
import type { Unclear } from '../search/language';
import { current, currentNames } from '../state/recordings';
import { regions } from '../state/regions';
import { onlyMatches, search } from '../state/search';
import { bytes, count } from '../text/units';
import { SEARCH_ID, focusTimeline } from './keys';
import { SearchHelp } from './search-help';

/** Milliseconds without typing before the search begins. */
const REST_MS = 120;

/** The texts of the words in the box that were not understood. */
const wordsOf = (unclear: readonly Unclear[]) => unclear.map(({ from, to }) => search.value.slice(from, to)).join(' ');

function completionsNow(text: string, caret: number): Completions | null {
  const device = current.value;
  return device && completionsAt(text, caret, { device, names: currentNames.value ?? null, regions: regions.value?.names ?? [] });
}

export function SearchBox() {
  /** Typed text that is not yet searched, and the query that it replaces. If the query changes meanwhile, the new query wins. */
  const [typed, setTyped] = useState<{ text: string; over: string } | null>(null);
  const text = typed?.over === search.value ? typed.text : search.value;
  const [focused, setFocused] = useState(false);
  const [helps, setHelps] = useState(false);
  const [offered, setOffered] = useState<Completions | null>(null);
  const [active, setActive] = useState(-1);
  const box = useRef<HTMLInputElement>(null);
  const marks = useRef<HTMLDivElement>(null);
  const caret = useRef<number | null>(null);
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
  const offer = (all: Completions | null) => {
    setOffered(all);
    setActive(-1);
  };
  const replace = (now: string, at = now.length) => {
    caret.current = at;
    say(now, search.value);
    box.current?.focus();
  };
  const accept = (choice: Completion) => {
    if (!offered) return;
    const now = completed(text, offered, choice);
    replace(now.text, now.caret);
    // After a field's name come its values.
    offer(choice.text.endsWith(':') ? completionsNow(now.text, now.caret) : null);
  };
  useLayoutEffect(() => {
    if (caret.current === null) return;
    box.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  });

  const keys = (e: TargetedKeyboardEvent<HTMLInputElement>) => {
    const input = e.currentTarget;
    const choice = offered?.choices[active];
    const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (move !== undefined && offered) {
      const many = offered.choices.length + 1;
      // One position, before the first choice, is the text itself.
      setActive(((active + 1 + move + many) % many) - 1);
    } else if ((e.key === 'Enter' || (e.key === 'Tab' && !e.shiftKey)) && choice) {
      accept(choice);
    } else if (e.key === 'Enter') {
      offer(null);
      say(input.value, search.value);
      stepToMatch(e.shiftKey ? -1 : 1);
    } else if (e.key === 'Escape') {
      // The search stays; with the timeline focused, the same key clears it.
      say(input.value, search.value);
      focusTimeline();
    } else return;
    e.preventDefault();
  };
  const typing = (e: TargetedEvent<HTMLInputElement>) => {
    const { value, selectionStart } = e.currentTarget;
    type(value);
    offer(completionsNow(value, selectionStart ?? value.length));
  };
  const leave = (e: FocusEvent) => {
    const within = e.currentTarget as Element;
    if (e.relatedTarget instanceof Node && within.contains(e.relatedTarget)) return;
    // A following action, such as a click on the legend, builds on the typed text.
    if (box.current) say(box.current.value, typed?.over ?? search.value);
    setFocused(false);
    setHelps(false);
    offer(null);
  };

  const unclear = reasons.value;
  const isHelp = helps || (text === '' && !offered);
  const isPanel = focused && (isHelp || offered !== null || unclear.length > 0);
  return (
    <search class="search" onFocusIn={() => setFocused(true)} onFocusOut={leave}>
      <label class="visually-hidden" for={SEARCH_ID}>
        Search allocations
      </label>
      <div class="search-field">
        <div ref={marks} class="search-marks" aria-hidden="true">
          <Marked text={text} unclear={text === search.value ? unclear : []} />
        </div>
        <input
          ref={box}
          id={SEARCH_ID}
          type="search"
          value={text}
          placeholder="Search: function, file, 0x…, 512MiB, freed:never"
          autocomplete="off"
          spellcheck={false}
          aria-describedby="search-result"
          aria-autocomplete="list"
          aria-invalid={unclear.length > 0}
          {...(offered ? { 'aria-controls': 'search-completions' } : {})}
          {...(active >= 0 ? { 'aria-activedescendant': `search-completion-${active}` } : {})}
          onInput={typing}
          onScroll={(e) => marks.current && (marks.current.scrollLeft = e.currentTarget.scrollLeft)}
          onKeyDown={keys}
        />
      </div>
      <button
        type="button"
        class="button"
        aria-label="Help for the search"
        aria-expanded={isPanel && isHelp}
        onClick={() => {
          offer(null);
          setHelps(!helps);
        }}
      >
        Help
      </button>
      {query.value !== null && (
        <Check label="Only matches" checked={onlyMatches.value} set={(only) => (onlyMatches.value = only)} />
      )}
      <span id="search-result" class="search-result" role="status">
        <Result />
      </span>
      {isPanel && (
        // The box keeps its focus when the panel is clicked.
        <div class="search-help" role="note" onMouseDown={(e) => e.preventDefault()}>
          {unclear.map(({ why }) => (
            <p key={why} class="search-unclear">
              {why}
            </p>
          ))}
          {offered ? (
            <ul id="search-completions" role="listbox" aria-label="Completions">
              {offered.choices.map((choice, i) => (
                <li
                  key={choice.text}
                  id={`search-completion-${i}`}
                  role="option"
                  aria-selected={i === active}
                  onClick={() => accept(choice)}
                >
                  <code>{choice.text}</code> <span class="quiet">{choice.meaning}</span>
                </li>
              ))}
            </ul>
          ) : (
            <SearchHelp text={text} run={replace} />
          )}
        </div>
      )}
    </search>
  );
}

/** The text, invisible, with the misunderstood words underlined: it lies behind the box. */
function Marked({ text, unclear }: { text: string; unclear: readonly Unclear[] }) {
  const parts = [];
  let at = 0;
  for (const { from, to } of [...unclear].sort((a, b) => a.from - b.from)) {
    if (from < at) continue;
    parts.push(text.slice(at, from), <mark key={from}>{text.slice(from, to)}</mark>);
    at = to;
  }
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  );
}

function Result() {
  const unclear = reasons.value;
  const all = found.value;
  if (query.value && !all) return <>searching</>;
  const why = unclear.map((one) => one.why).join('\n');
  if (!all || all.is_empty) {
    return unclear.length > 0 ? (
      <span class="search-unclear" title={why}>
        not understood
      </span>
    ) : null;
  }
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
      {unclear.length > 0 && (
        <span class="search-unclear" title={why}>
          , ignored: {wordsOf(unclear)}
        </span>
      )}
    </span>
  );
}
