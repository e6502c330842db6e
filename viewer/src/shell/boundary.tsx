// Keeps faults to the part of the page in which they happen, and reports them.

import type { ComponentChildren } from 'preact';
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

export interface BoundaryProps {
  /** The name of the part, as a sentence begins: `The timeline`. */
  name: string;
  /** What the part shows. When it changes, a part that failed is drawn again. */
  of: string;
  children: ComponentChildren;
}

/** A part of the page. Where it cannot be drawn the reason stands in its place, and the rest of the page goes on. */
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

/** Shows faults that happen outside of drawing, such as in a callback. */
export function watchForFaults(): void {
  const showFault = (e: unknown) => {
    trouble.value = `The page met a fault: ${reason(e)}. Load it again; what you chose stands in its address.`;
  };
  window.addEventListener('error', (e) => {
    // Browsers also report what is no fault, without an error: for example that a ResizeObserver was late.
    if (e.error) showFault(e.error);
  });
  window.addEventListener('unhandledrejection', (e) => showFault(e.reason));
}
