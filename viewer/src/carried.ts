// Start-up script of a self-contained page: unpacks the page's script, style, engine and recordings.

import { decode } from './source/columns';
import type { Note } from './source/generated/view';
import { unpackedOf } from './source/lzma';
import { bytesOf } from './source/letters';

/** The parts packed into a page (crates/vramscope-viewer/src/page.rs). */
interface Packed {
  script: Uint8Array;
  style: Uint8Array;
  worker: Uint8Array;
}

/** A recording embedded in a page: facts about its file, and its bytes. */
interface Recording {
  name: string;
  about: unknown;
  packing: 'lzma' | 'zstd';
  bytes: Uint8Array<ArrayBuffer>;
}

/** Returns the bytes stored in an element of the page. */
const held = (id: string) => bytesOf(document.getElementById(id)?.textContent ?? '');

function begin(): void {
  const { script, style, worker } = decode<Packed>(unpackedOf(held('packed')).buffer);
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const add = (name: 'style' | 'script', content: string) => {
    const element = document.createElement(name);
    element.textContent = content;
    if (element instanceof HTMLScriptElement) element.type = 'module';
    document.head.append(element);
  };
  const { recordings } = decode<{ recordings: Recording[] }>(held('recordings').buffer);
  globalThis.carried = {
    parts: {
      code: unpackedOf(held('engine')).buffer,
      // Some notebooks allow workers in frames only from data URLs.
      script: `data:text/javascript,${encodeURIComponent(text(worker))}`,
    },
    notes: JSON.parse(document.getElementById('notes')?.textContent ?? '[]') as Note[],
    files: recordings.map(({ name, about, packing, bytes }) => ({
      content: new File([packing === 'lzma' ? unpackedOf(bytes) : bytes], name),
      about: JSON.stringify(about),
    })),
  };
  add('style', text(style));
  add('script', text(script));
}

begin();
