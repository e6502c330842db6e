import { render } from 'preact';
import { App } from './app';
import { watchForFaults } from './shell/boundary';
import { followKeys } from './shell/keys';
import type { Engine } from './source/engine';
import { askedOf } from './source/questions';
import { server } from './source/server';
import { workers } from './source/worker';
import { start } from './state/address';
import { isOfRanks } from './state/files';
import { trouble } from './state/trouble';
import { followTheme } from './style/theme';
import { reason } from './text/reason';
import './style/tokens.css';
import './style/shell.css';
import './style/timeline.css';
import './style/overview.css';
import './style/views.css';

/** Returns the engine: the one embedded in the page, the one next to a site's page, or the server of `vramscope view`. */
async function engine(): Promise<Engine> {
  if (globalThis.carried) return workers(globalThis.carried.parts, globalThis.carried.files);
  const beside = document.querySelector<HTMLLinkElement>('link[rel="preload"][href$=".wasm"]');
  if (!beside) return server(isOfRanks);
  const engine = workers({ code: await (await fetch(beside.href)).arrayBuffer(), script: 'worker.js' });
  const example = document.querySelector<HTMLLinkElement>('link[rel="preload"][href$=".zst"]');
  if (example) engine.practise(new File([await (await fetch(example.href)).blob()], 'example'));
  return engine;
}

async function begin(): Promise<void> {
  try {
    await start(askedOf(await engine()));
  } catch (e) {
    trouble.value = reason(e);
  }
}

/** Caches a site, so that it also opens offline. */
function keepSite(): void {
  if (document.querySelector('link[rel="manifest"]')) void navigator.serviceWorker?.register('offline.js');
}

watchForFaults();
followTheme();
followKeys();
render(<App />, document.getElementById('app')!);
void begin();
keepSite();
