import { render } from 'preact';
import { App } from './app';
import { watchForFaults } from './shell/boundary';
import { followKeys } from './shell/keys';
import { http } from './source/http';
import { local } from './source/local';
import { start } from './state/address';
import { trouble } from './state/trouble';
import { followTheme } from './style/theme';
import { reason } from './text/reason';
import './style/tokens.css';
import './style/shell.css';
import './style/timeline.css';
import './style/overview.css';
import './style/views.css';

async function begin(): Promise<void> {
  // A self-contained page carries its recording.
  const carried = document.getElementById('recording');
  try {
    await start(carried ? await local(carried.textContent) : http());
  } catch (e) {
    trouble.value = reason(e);
  }
}

watchForFaults();
followTheme();
followKeys();
render(<App />, document.getElementById('app')!);
void begin();
