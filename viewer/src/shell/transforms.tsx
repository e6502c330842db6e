// The transforms of the call tree, which act on every view, as chips.

import { Chip } from '../parts/chip';
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
            <Chip key={`${at} ${text}`} text={text} onRemove={() => removeTransform(at)}>
              <span class="transform-text" title={text}>
                {text}
              </span>
            </Chip>
          );
        })}
      </ul>
      <button type="button" class="link-button" onClick={removeTransforms}>
        Remove all
      </button>
    </div>
  );
}
