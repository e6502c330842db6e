// What fails takes nothing else with it.

import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

export interface BoundaryProps {
  /** The part of the page: `The view`. */
  name: string;
  /** What the part shows: of another it is tried again. */
  of: string;
  children: ComponentChildren;
}

/** In the place of a part that cannot be drawn stands why, and what to do; the rest of the page goes on. */
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
        {name} cannot show this: {reason(error)}. That is a fault of the page, not of yours: choose something else, or ask{' '}
        <code>vramscope report FILE</code> for the same in words.
      </p>
      <button type="button" class="button" onClick={tryAgain}>
        Try again
      </button>
    </div>
  );
}

/** What fails where nothing is drawn, between an answer and its drawing, is told, too. */
export function watchForFaults(): void {
  const tell = (e: unknown) => {
    trouble.value = `The page met a fault: ${reason(e)}. Load it again; what you chose stands in its address.`;
  };
  window.addEventListener('error', (e) => {
    // Without an error it is a notice of the browser, as of an observer that was late.
    if (e.error) tell(e.error);
  });
  window.addEventListener('unhandledrejection', (e) => tell(e.reason));
}
