import { useState } from 'preact/hooks';
import { framesOf, isNative, isPlace, shortFile } from '../names/stacks';
import { entryAt } from '../numbers/at';
import { NONE, type Generated, type Names } from '../source/source';
import { editor, editorLink } from '../state/editor';
import { names as allNames } from '../state/recordings';
import { search } from '../state/search';
import { showSource } from '../state/source';

export interface StackTraceProps {
  /** Null or NONE if no stack was recorded. */
  stack: number | null;
  file: number;
  heading?: string;
}

type Run = { frames: number[]; folded: boolean };

/** Splits the frames into runs: native frames, which are folded, and frames of the user and of Python libraries. */
function runs(frames: Iterable<number>, names: Names): Run[] {
  const found: Run[] = [];
  for (const f of frames) {
    const folded = isNative(names, f);
    const last = found.at(-1);
    if (last && last.folded === folded) last.frames.push(f);
    else found.push({ frames: [f], folded });
  }
  return found;
}

/** Copies a text, and says so on the button. Without access to the clipboard, the text is selected where it stands. */
function copy(button: HTMLElement, text: string): void {
  const say = (done: string) => {
    button.textContent = done;
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  };
  const select = () => {
    const place = button.closest('.frame')?.querySelector('.frame-place, .frame-name');
    if (place) getSelection()?.selectAllChildren(place);
    say('Selected');
  };
  // An insecure page has no clipboard at all.
  (navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))).then(() => say('Copied'), select);
}

function Frame({ frame, names }: { frame: number; names: Names }) {
  const generated = names.generated.get(frame);
  const [file, line, label] = [entryAt(names.file, frame), entryAt(names.line, frame), entryAt(names.label, frame)];
  const link = editorLink(editor.value, file, line);
  return (
    <li class={`frame frame-${names.code[frame]}`}>
      <span class="frame-head">
        <button
          type="button"
          class="frame-name"
          title={`Search for the allocations through ${label}`}
          onClick={() => (search.value = `"${label.replaceAll('"', '')}"`)}
        >
          {names.function[frame] || label}
        </button>
        <span class="frame-actions">
          <button
            type="button"
            class="link-button"
            aria-label={`Copy ${label}`}
            onClick={(e) => copy(e.currentTarget, isPlace(file) ? `${file}:${line}` : label)}
          >
            Copy
          </button>
          {isPlace(file) && (
            <button
              type="button"
              class="link-button"
              aria-label={`Show the source of ${label}`}
              onClick={() => showSource(frame, names)}
            >
              Source
            </button>
          )}
          {link !== null && (
            <a class="link-button" href={link} aria-label={`Open ${label} in the editor`}>
              Open
            </a>
          )}
        </span>
      </span>
      {isPlace(file) && (
        <span class="frame-place" title={`${file}:${line}`}>
          {shortFile(names, frame)}
          {line > 0 && `:${line}`}
        </span>
      )}
      {generated && <Original {...generated} />}
    </li>
  );
}

/** The source of a line of generated code. */
const Original = ({ node, original }: Generated) => (
  <div class="frame-original">
    {node && (
      <span>
        node <code>{node}</code> of the compiled graph
      </span>
    )}
    {original && (
      <>
        <span>Original line:</span>
        <pre>{original}</pre>
      </>
    )}
  </div>
);

/** The forward pass behind an allocation of the backward pass, as the program recorded it; outermost call first. */
export const ForwardPass = ({ lines }: { lines: readonly string[] }) => (
  <section class="stack-trace" aria-label="Originating forward pass">
    <h3>Originating forward pass</h3>
    <pre class="frame-original">{lines.map((line) => line.trimEnd()).join('\n')}</pre>
  </section>
);

/** The references from variables of the program to a tensor, as they were at the snapshot. */
export const Referrers = ({ chains }: { chains: readonly string[] }) => (
  <section class="stack-trace" aria-label="Referred to by">
    <h3>Referred to by</h3>
    <ul class="referrers">
      {chains.map((chain) => (
        <li key={chain}>{chain}</li>
      ))}
    </ul>
  </section>
);

function Frames({ stack, names }: { stack: number; names: Names }) {
  const [native, setNative] = useState(false);
  const all = framesOf(names, stack);
  const parts = runs(all, names);
  const hidden = parts.filter((r) => r.folded).reduce((n, r) => n + r.frames.length, 0);
  // A stack with only native frames is not folded.
  const onlyNative = hidden === all.length;
  return (
    <>
      <ol class="frames">
        {parts.map((run) =>
          run.folded && !native && !onlyNative
            ? null
            : run.frames.map((f, i) => <Frame key={`${f}.${i}`} frame={f} names={names} />),
        )}
      </ol>
      {hidden > 0 && !onlyNative && (
        <button type="button" class="link-button" aria-expanded={native} onClick={() => setNative(!native)}>
          {native ? 'Hide native frames' : `Show ${hidden} native ${hidden === 1 ? 'frame' : 'frames'}`}
        </button>
      )}
    </>
  );
}

/** A stack, innermost frame first. The user's frames are highlighted, native ones are folded. */
export function StackTrace({ stack, file, heading }: StackTraceProps) {
  const names = allNames.value.get(file);
  return (
    <section class="stack-trace" aria-label={heading ?? 'Stack'}>
      {heading && <h3>{heading}</h3>}
      {stack === null || stack === NONE ? (
        <p class="quiet">No stack was recorded.</p>
      ) : !names ? (
        <p class="quiet">Reading names.</p>
      ) : framesOf(names, stack).length === 0 ? (
        <p class="quiet">The recorded stack is empty.</p>
      ) : (
        <Frames stack={stack} names={names} />
      )}
    </section>
  );
}
