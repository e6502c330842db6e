// Confines errors to the part of the page in which they happen, and reports them.

import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

export interface BoundaryProps {
  /** The part's name, as at the start of a sentence: `The timeline`. */
  name: string;
  /** The part's content. When it changes, a failed part is drawn again. */
  of: string;
  children: ComponentChildren;
}

/** A part of the page. If it cannot be drawn, the reason is shown in its place, and the rest of the page continues. */
export function Boundary({ name, of, children }: BoundaryProps) {
  const [error, tryAgain] = useErrorBoundary((e: unknown) => console.error(e));
  const tried = useRef(of);
  useEffect(() => {
    if (tried.current === of) return;
    tried.current = of;
    tryAgain();
  }, [of]);
  if (error === undefined) return <>{children}</>;
  return (
    <div class="failed" role="alert">
      <p>
        {name} cannot show this: {reason(error)}. This is a bug in the page. Choose something else, or run{' '}
        <code>vramscope report FILE</code> for the same facts as text.
      </p>
      <button type="button" class="button" onClick={tryAgain}>
        Try again
      </button>
    </div>
  );
}

/** Shows errors that happen outside of rendering, such as in a callback. */
export function watchForFaults(): void {
  const showFault = (e: unknown) => {
    trouble.value = `The page had an error: ${reason(e)}. Reload it; its address keeps your choices.`;
  };
  window.addEventListener('error', (e) => {
    // Browsers also report harmless events without an error, for example a late ResizeObserver.
    if (e.error) showFault(e.error);
  });
  window.addEventListener('unhandledrejection', (e) => showFault(e.reason));
}
