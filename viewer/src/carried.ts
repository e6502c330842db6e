// The beginning of a self-contained page: its script, its style and its engine are packed, and so are its recordings.

import { decode } from './source/columns';
import { unpackedOf } from './source/lzma';
import { bytesOf } from './source/seven';

/** What is packed into a page (crates/vramscope-viewer/src/page.rs). */
interface Packed {
  script: Uint8Array;
  style: Uint8Array;
  worker: Uint8Array;
}

/** A recording that a page carries: what is told of its file, and its bytes. */
interface Recording {
  name: string;
  about: unknown;
  bytes: Uint8Array<ArrayBuffer>;
}

/** The text of an element of the page. */
const textOf = (id: string) => document.getElementById(id)?.textContent ?? '';

/** What an element holds deflated. */
const inflated = (id: string): Promise<ArrayBuffer> =>
  new Response(new Blob([bytesOf(textOf(id))]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).arrayBuffer();

async function begin(): Promise<void> {
  const { script, style, worker } = decode<Packed>(await inflated('packed'));
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const add = (name: 'style' | 'script', content: string) => {
    const element = document.createElement(name);
    element.textContent = content;
    if (element instanceof HTMLScriptElement) element.type = 'module';
    document.head.append(element);
  };
  const { recordings } = decode<{ recordings: Recording[] }>(bytesOf(textOf('recordings')).buffer);
  globalThis.carried = {
    parts: {
      code: unpackedOf(bytesOf(textOf('engine'))).buffer,
      // Some notebooks let frames have workers from such addresses alone.
      script: `data:text/javascript,${encodeURIComponent(text(worker))}`,
    },
    files: recordings.map(({ name, about, bytes }) => ({ content: new File([bytes], name), about: JSON.stringify(about) })),
  };
  add('style', text(style));
  add('script', text(script));
}

void begin();
