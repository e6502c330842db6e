// The transforms of the call tree, which act on every view, as chips.

import { removeTransform, removeTransforms, transformText, transforms } from '../state/transforms';

export function Transforms() {
  const all = transforms.value;
  if (all.length === 0) return null;
  return (
    <div class="transforms" role="group" aria-label="Transforms of the call tree">
      <ul>
        {all.map((one, at) => {
          const text = transformText(one);
          return (
            <li key={`${at} ${text}`} class="transform">
              <span class="transform-text" title={text}>
                {text}
              </span>
              <button
                type="button"
                class="transform-remove"
                aria-label={`Remove: ${text}`}
                title="Remove"
                onClick={() => removeTransform(at)}
              >
                ×
              </button>
            </li>
          );
        })}
      </ul>
      <button type="button" class="link-button" onClick={removeTransforms}>
        Remove all
      </button>
    </div>
  );
}
