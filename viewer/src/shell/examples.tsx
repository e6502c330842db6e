// Example recordings of a site, listed in its page (site/build.mjs).

import { openFiles } from './open-files';
import { trouble } from '../state/trouble';
import { reason } from '../text/reason';

interface Example {
  file: string;
  title: string;
  text: string;
}

const listed = document.getElementById('examples')?.textContent;
const EXAMPLES: Example[] = listed ? (JSON.parse(listed) as Example[]) : [];

async function open({ file }: Example): Promise<void> {
  try {
    const response = await fetch(`examples/${file}`);
    if (!response.ok) throw new Error(`${file}: ${response.status} ${response.statusText}`);
    await openFiles([new File([await response.blob()], file)]);
  } catch (e) {
    trouble.value = reason(e);
  }
}

export function Examples() {
  if (EXAMPLES.length === 0) return null;
  return (
    <>
      <p>Files that you open never leave this browser; nothing is sent anywhere.</p>
      <ul class="examples">
        {EXAMPLES.map((example) => (
          <li key={example.file}>
            <button type="button" class="button" onClick={() => void open(example)}>
              {example.title}
            </button>
            <span>{example.text}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
