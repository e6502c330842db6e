import type { Note } from './generated/view';

/** The document of a self-contained page as it was written (crates/vramscope-viewer/src/page.rs), with these notes. */
export function documentWith(notes: readonly Note[]): Blob {
  const held = document.getElementById('notes');
  // No text of a note ends the element.
  if (held) held.textContent = JSON.stringify(notes).replaceAll('<', '\\u003c');
  const parts = [...document.querySelectorAll('meta, title, #app, body > script')].map((part) =>
    part.id === 'app' ? '<div id="app"></div>' : part.outerHTML,
  );
  return new Blob([`<!doctype html>\n<html lang="en">\n${parts.join('\n')}\n</html>\n`], { type: 'text/html' });
}
