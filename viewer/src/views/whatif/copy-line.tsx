import { useRef, useState } from 'preact/hooks';
import { Button } from '../../parts/controls';

/** A line of text with a button that copies it. */
export function CopyLine({ text }: { text: string }) {
  const line = useRef<HTMLElement>(null);
  const [copied, setCopied] = useState<string | null>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(text);
    } catch {
      // If the browser denies access to the clipboard, select the line so that the user can copy it.
      getSelection()?.selectAllChildren(line.current!);
    }
  };
  return (
    <div class="copy-line">
      <code ref={line}>{text}</code>
      <Button onClick={() => void copy()}>Copy</Button>
      <span class="visually-hidden" aria-live="polite">
        {copied === text ? 'Copied.' : ''}
      </span>
      {copied === text && (
        <span class="quiet" aria-hidden="true">
          copied
        </span>
      )}
    </div>
  );
}
