// The first script of a self-contained page: it unpacks the page's script, style, engine and recordings, and starts the page.

import { decode } from './source/columns';
import type { Note } from './source/generated/server';
import type { Operators } from './source/messages';

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
  /** The trace of `torch.profiler` beside it. */
  operators: { name: string; bytes: Uint8Array<ArrayBuffer> } | null;
}

/** The bytes in an element of the page, which holds them as base64. */
function bytesOf(element: Element | null): Uint8Array<ArrayBuffer> {
  const text = atob(element?.textContent ?? '');
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const bytesIn = (id: string) => bytesOf(document.getElementById(id));

/** The trace beside a file: one that was dropped before the page was saved (source/document.ts), or the one that the page was made with. */
function operatorsOf({ operators }: Recording, file: number): { operators?: Operators } {
  const dropped = document.querySelector<HTMLElement>(`script.dropped-trace[data-file="${file}"]`);
  const { name, bytes } = dropped ? { name: dropped.dataset['name'] ?? '', bytes: bytesOf(dropped) } : (operators ?? {});
  return bytes && name !== undefined ? { operators: { trace: new File([bytes], name), isOwn: true } } : {};
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
    files: recordings.map((recording, file) => ({
      content: new File([recording.bytes], recording.name),
      about: JSON.stringify(recording.about),
      ...operatorsOf(recording, file),
    })),
  };
  add('style', text(style));
  add('script', text(script));
}

void begin();
