import type { Note } from './generated/server';

/** A trace of `torch.profiler` that was dropped onto an embedded file. */
export interface DroppedTrace {
  /** The position of the file in the page. */
  file: number;
  trace: File;
}

/**
 * Returns the original document of a self-contained page (crates/vramscope-viewer/src/page.rs), with these notes and dropped traces.
 * carried.ts reads the elements of the traces.
 */
export async function documentWith(notes: readonly Note[], traces: readonly DroppedTrace[]): Promise<Blob> {
  const held = document.getElementById('notes');
  for (const { file, trace } of traces) {
    document.querySelector(`script.dropped-trace[data-file="${file}"]`)?.remove();
    const element = document.createElement('script');
    element.type = 'text/plain';
    element.className = 'dropped-trace';
    element.dataset['file'] = String(file);
    element.dataset['name'] = trace.name;
    element.textContent = await base64(trace);
    held?.before(element);
  }
  // Escaped, so that no note can end the element.
  if (held) held.textContent = JSON.stringify(notes).replaceAll('<', '\\u003c');
  const parts = [...document.querySelectorAll('meta, title, #app, body > script')].map((part) =>
    part.id === 'app' ? '<div id="app"></div>' : part.outerHTML,
  );
  return new Blob([`<!doctype html>\n<html lang="en">\n${parts.join('\n')}\n</html>\n`], { type: 'text/html' });
}

/** Returns the bytes of a file as base64. */
const base64 = (file: File): Promise<string> =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).replace(/^[^,]*,/, ''));
    reader.onerror = () => failed(reader.error ?? new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
