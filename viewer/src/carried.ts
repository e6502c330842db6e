// The first script of a self-contained page: it unpacks the page's script, style, engine and recordings, and starts the page.

import { decode } from './source/columns';
import type { Note } from './source/generated/view';

/** The packed parts of a page (crates/vramscope-viewer/src/page.rs). */
interface Packed {
  script: Uint8Array;
  style: Uint8Array;
  worker: Uint8Array;
}

/** A recording in a page: facts about its file, and its bytes, which the engine decompresses. */
interface Recording {
  name: string;
  about: unknown;
  bytes: Uint8Array<ArrayBuffer>;
}

/** The bytes in an element of the page, which holds them as base64. */
function bytesIn(id: string): Uint8Array<ArrayBuffer> {
  const text = atob(document.getElementById(id)?.textContent ?? '');
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The same, decompressed with gzip. */
function unpackedIn(id: string): Promise<ArrayBuffer> {
  const stream = new Blob([bytesIn(id)]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

async function begin(): Promise<void> {
  const [packed, code] = await Promise.all([unpackedIn('packed'), unpackedIn('engine')]);
  const { script, style, worker } = decode<Packed>(packed);
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const add = (name: 'style' | 'script', content: string) => {
    const element = document.createElement(name);
    element.textContent = content;
    if (element instanceof HTMLScriptElement) element.type = 'module';
    document.head.append(element);
  };
  const { recordings } = decode<{ recordings: Recording[] }>(bytesIn('recordings').buffer);
  globalThis.carried = {
    parts: {
      code,
      // Some notebooks allow workers in frames only from data addresses.
      script: `data:text/javascript,${encodeURIComponent(text(worker))}`,
    },
    notes: JSON.parse(document.getElementById('notes')?.textContent ?? '[]') as Note[],
    files: recordings.map(({ name, about, bytes }) => ({
      content: new File([bytes], name),
      about: JSON.stringify(about),
    })),
  };
  add('style', text(style));
  add('script', text(script));
}

void begin();
