// The beginning of a self-contained page: its script, its style and its engine are packed, and so are its recordings.

import { decode } from './source/columns';
import { bytesOf } from './source/seven';

/** What is packed into a page; a test of the page's other side reads the same (crates/vramscope-viewer/src/page.rs). */
interface Packed {
  script: Uint8Array;
  style: Uint8Array;
  worker: Uint8Array;
  engine: Uint8Array<ArrayBuffer>;
}

/** The text of an element of the page. */
const textOf = (id: string) => document.getElementById(id)?.textContent ?? '';

async function begin(): Promise<void> {
  const inflated = new Blob([bytesOf(textOf('packed'))]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const { script, style, worker, engine } = decode<Packed>(await new Response(inflated).arrayBuffer());
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  const add = (name: 'style' | 'script', content: string) => {
    const element = document.createElement(name);
    element.textContent = content;
    if (element instanceof HTMLScriptElement) element.type = 'module';
    document.head.append(element);
  };
  const { recordings } = decode<{ recordings: { name: string; bytes: Uint8Array<ArrayBuffer> }[] }>(
    bytesOf(textOf('recordings')).buffer,
  );
  globalThis.carried = {
    parts: {
      module: await WebAssembly.compile(engine),
      script: URL.createObjectURL(new Blob([text(worker)], { type: 'text/javascript' })),
    },
    files: recordings.map(({ name, bytes }) => new File([bytes], name)),
  };
  add('style', text(style));
  add('script', text(script));
}

void begin();
