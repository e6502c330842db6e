import type { Note } from './generated/view';

/** Returns the original document of a self-contained page (crates/vramscope-viewer/src/page.rs), with these notes. */
export function documentWith(notes: readonly Note[]): Blob {
  const held = document.getElementById('notes');
  // Escaped, so that no note can end the element.
  if (held) held.textContent = JSON.stringify(notes).replaceAll('<', '\\u003c');
  const parts = [...document.querySelectorAll('meta, title, #app, body > script')].map((part) =>
    part.id === 'app' ? '<div id="app"></div>' : part.outerHTML,
  );
  return new Blob([`<!doctype html>\n<html lang="en">\n${parts.join('\n')}\n</html>\n`], { type: 'text/html' });
}
